"""Dtype maps: what each of vLLM's tables makes of a dtype or of a dtype's name.

In: a cell of surface ``dtype``, whose name is ``TABLE.DTYPE`` (``fp8`` is the platform's own FP8 dtype), or whose
scheme names a ``member`` of a module. Out: the mapped value as text. A table that does not know the dtype ends in a
refusal without an answer, in vLLM's words. Only the module that holds the table is imported, so that releases answer
for which nothing else imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from harness.adapters.context import vllm_config
from harness.adapters.decision import Decision, Missing, find, raised, unsupported
from harness.adapters.watch import accepted_arguments
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence

_TORCH_UTILS = ("vllm.utils.torch_utils", "vllm.utils")  # vllm<0.12: one module
_KV_PREDICATES = ("vllm.v1.kv_cache_interface", "vllm.utils.torch_utils")  # vllm<0.29: torch_utils
_QUANT = "vllm.model_executor.layers.quantization"
_ALGORITHMS: Mapping[str, Mapping[str, Any]] = {
    "modelopt_fp8": {"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}},
    "modelopt_nvfp4": {"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "NVFP4"}},
    "modelopt_scheme": {
        "quant_method": "modelopt",
        "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
    },
    "modelopt_unknown": {"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "INT8"}},
    "modelopt_none": {"quant_method": "modelopt", "quantization": {}},
    "other_method": {"quant_method": "fp8", "kv_cache_quant_algo": "FP8"},
}
"""Quantization configurations of checkpoints, as ModelOpt writes them."""


class _Unmapped(Exception):
    """A table of vLLM's, which is read here, does not know the dtype."""


def decide_dtype(cell: Cell) -> Decision:
    """Look one dtype up in one of vLLM's tables."""
    table, _, question = cell.kernel.name.partition(".")
    member = cell.kernel.scheme.get("member")
    try:
        value, symbol = _TABLES[table](question) if member is None else _member(str(member))
    except Missing as missing:
        return unsupported(str(missing))
    except _Unmapped as unmapped:
        return Decision(Ended.REFUSED, symbol=str(unmapped).partition(" ")[0], detail=str(unmapped))
    except (ValueError, KeyError, NotImplementedError) as error:
        return _refused(error)
    except ImportError:
        raise  # of the surface's own module: the probe tells whose fault that is
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    asked = f"{symbol}({_question(question)})" if member is None else str(member)
    return Decision(Ended.ANSWERED, value, symbol, evidence=(Evidence(question=asked, answer=value),))


def _refused(error: Exception) -> Decision:
    """vLLM's own function does not know the dtype."""
    where = raised(error)
    return replace(where, ended=Ended.REFUSED)


def _question(name: str) -> str:
    """The dtype asked about: the platform's own by its real name, what is no dtype as it is."""
    try:
        return str(_torch_dtype(name))
    except AttributeError:
        return name


def _torch_dtype(name: str) -> Any:
    import torch

    if name == "fp8":
        from vllm.platforms import current_platform

        return current_platform.fp8_dtype()
    return getattr(torch, name)


def _from(modules: tuple[str, ...], name: str) -> Any:
    for module in modules:
        found = find(module, name)
        if found is not None:
            return found
    raise Missing(f"{modules[0]}.{name}")


def _require_kv_dtype(name: str) -> None:
    """Only what the release takes for ``--kv-cache-dtype`` must be in its tables."""
    try:
        known = get_args(find("vllm.config.cache", "CacheDType"))
    except ImportError:
        return  # the configuration cannot be imported here; the table's own answer is all there is
    if known and name not in known:
        raise Missing(f"KV-cache dtype {name}")


# ---- the tables: (question) -> (value as text, symbol)


def _nccl(name: str) -> tuple[str, str]:
    """The NCCL dtype that a collective sends the dtype as."""
    table = _from(("vllm.distributed.device_communicators.pynccl_wrapper",), "ncclDataTypeEnum")
    number = table.from_torch(_torch_dtype(name))
    names = [word for word, value in vars(table).items() if word.startswith("nccl") and value == number]
    return (names[0] if names else str(number)), "ncclDataTypeEnum.from_torch"


def _kv(name: str) -> tuple[str, str]:
    """The dtype that a KV cache of this name is stored as, for a model in bfloat16."""
    import torch

    _require_kv_dtype(name)
    function = _from(_TORCH_UTILS, "get_kv_cache_torch_dtype")
    return str(function(name, torch.bfloat16)), function.__qualname__


def _kv_mode(name: str) -> tuple[str, str]:
    """How the generic kernels quantise a KV cache of this name, and whether it counts as quantised."""
    _require_kv_dtype(name)
    function = _from(("vllm.v1.kv_cache_interface",), "get_kv_quant_mode")
    quantized = _from(_KV_PREDICATES, "is_quantized_kv_cache")
    return f"{function(name).name}, quantized={bool(quantized(name))}", function.__qualname__


def _kv_algorithm(name: str) -> tuple[str, str]:
    """The KV-cache dtype that the quantization configuration of a checkpoint asks for."""
    function = _from(_TORCH_UTILS, "get_kv_cache_quant_algo_string")
    return str(function(dict(_ALGORITHMS[name]))), function.__qualname__


def _numpy(name: str) -> tuple[str, str]:
    table = _from(_TORCH_UTILS, "TORCH_DTYPE_TO_NUMPY_DTYPE")
    found = table.get(_torch_dtype(name))
    if found is None:
        raise _Unmapped(f"TORCH_DTYPE_TO_NUMPY_DTYPE has no {_torch_dtype(name)}")
    return str(found.__name__), "TORCH_DTYPE_TO_NUMPY_DTYPE"


def _model(name: str) -> tuple[str, str]:
    """The dtype that a user names with ``--dtype``."""
    function = _from(("vllm.config.model",), "str_dtype_to_torch_dtype")
    return str(function(name)), function.__qualname__


def _auto(name: str) -> tuple[str, str]:
    """The dtype that ``--dtype auto`` makes of the one that a checkpoint states."""
    function = _from(("vllm.config.model",), "_resolve_auto_dtype")
    return str(function("gfxloop", _torch_dtype(name), is_pooling_model=False)), function.__qualname__


def _member(name: str) -> tuple[str, str]:
    """A name below ``vllm``, as ``module:attribute.attribute``; a function without arguments is called."""
    module, _, path = name.partition(":")
    first, *rest = path.split(".")
    value = _from((f"vllm.{module}",), first)
    for attribute in rest:
        value = getattr(value, attribute)
    return str(value() if callable(value) else value), path


def _quantiser(name: str) -> tuple[str, str]:
    """What vLLM's FP8 quantiser makes of a ramp, run on the CPU: the dtype and the largest code, group by ``name``."""
    import torch

    quantiser = _from((f"{_QUANT}.input_quant_fp8",), "QuantFP8")
    groups = _from((f"{_QUANT}.utils.quant_utils",), "GroupShape")
    shape = groups(1, 128) if name == "group" else getattr(groups, name.upper())
    settings = {"static": False, "group_shape": shape, "compile_native": False}  # vllm<0.17: not asked
    with vllm_config():
        layer = quantiser(**accepted_arguments(quantiser.__init__, settings))
    codes, _ = layer.forward_native(torch.linspace(-3, 3, 512, dtype=torch.bfloat16).reshape(4, 128))
    return f"{codes.dtype}, up to {float(codes.float().abs().max()):g}", "QuantFP8.forward_native"


_TABLES: Mapping[str, Callable[[str], tuple[str, str]]] = {
    "nccl": _nccl,
    "kv": _kv,
    "kv_mode": _kv_mode,
    "kv_algorithm": _kv_algorithm,
    "numpy": _numpy,
    "model": _model,
    "auto": _auto,
    "quantiser": _quantiser,
}
