"""Quantization methods: which the platform accepts, what each asks of the device, and which a checkpoint gets.

In: a cell of surface ``quantization``. Its name is a method (the platform's own check of it), ``config.METHOD`` (the
class behind the name, with the compute capability and the dtypes that it asks for) or ``checkpoint.NAME`` (the method
that vLLM makes of a checkpoint's ``quantization_config``, under the user's ``choice``). Nothing is loaded or
downloaded, and the variables that vLLM sets on the way are put back.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from harness.adapters.categories import categorise
from harness.adapters.decision import Decision, Missing, answered, find, raised
from harness.adapters.switches import kept_environment
from harness.model.cell import Cell
from harness.model.record import Candidate, Ended, Evidence

_PACKAGE = "vllm.model_executor.layers.quantization"

_CHECKPOINTS: Mapping[str, Mapping[str, Any]] = {
    "fp8": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    "gptq_act_order": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True},
    "gptq_w8": {"quant_method": "gptq", "bits": 8, "group_size": 128, "desc_act": False, "sym": True},
    "gptq_w3": {"quant_method": "gptq", "bits": 3, "group_size": 128, "desc_act": False, "sym": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
    "auto_round": {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int"},
    "compressed_tensors": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
    "quark": {"quant_method": "quark", "export": {}, "global_quant_config": {}},
    "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": []},
    "mxfp8": {"quant_method": "mxfp8", "ignored_layers": []},
    "modelopt_fp8": {"quant_method": "modelopt", "quant_algo": "FP8"},
    "modelopt_nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "modelopt_mxfp8": {"quant_method": "modelopt", "quant_algo": "MXFP8"},
    "modelopt_mixed": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {}},
    "torchao": {"quant_method": "torchao", "quant_type": {}},
    "bitsandbytes": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "fbgemm_fp8": {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0},
}
"""``quantization_config`` of checkpoints, as the tools that quantise write it. Source: config.json of RedHatAI, AMD,
Qwen and NVIDIA models on the Hugging Face hub, reduced to the keys that vLLM looks at before it builds a layer."""


def decide_quantization(cell: Cell) -> Decision:
    """Ask about one method, or about one checkpoint."""
    ask, _, rest = cell.kernel.name.partition(".")
    with kept_environment():
        return answered(lambda: _ASKS[ask](cell, rest) if rest else _verify(cell.kernel.name))


def _require(method: str) -> None:
    if method not in (find(_PACKAGE, "QUANTIZATION_METHODS") or ()):
        raise Missing(f"quantization method {method}")


def _verify(name: str) -> Decision:
    from vllm.platforms import current_platform

    _require(name)
    symbol = current_platform.verify_quantization.__qualname__
    listed = current_platform.supported_quantization
    answer = str(name in listed) if listed else "no list"
    asked = (Evidence(question=f"{name} in supported_quantization", answer=answer),)
    try:
        current_platform.verify_quantization(name)
    except ValueError as error:
        reason = str(error)
        refused = Candidate(name=name, accepted=False, reason=reason, category=categorise(reason))
        return Decision(Ended.ANSWERED, "refused", symbol, reason, candidates=(refused,), evidence=asked)
    accepted = Candidate(name=name, accepted=True)
    return Decision(Ended.ANSWERED, "accepted", symbol, candidates=(accepted,), evidence=asked)


def _config(_cell: Cell, name: str) -> Decision:
    """``Fp8Config: capability 94 >= 75; bfloat16, float16``, compared as ``VllmConfig`` does before a model loads."""
    from vllm.platforms import current_platform

    _require(name)
    config = find(_PACKAGE, "get_quantization_config")(name)
    least = config.get_min_capability()
    capability = current_platform.get_device_capability()
    if capability is None:
        words = f"least capability {least}, not asked"
    else:
        number = capability.to_int()
        words = f"capability {number} {'<' if number < least else '>='} {least}"
    symbol = f"{config.__name__}.get_min_capability"
    return Decision(Ended.ANSWERED, f"{config.__name__}: {words}; {_dtypes(config)}", symbol)


def _dtypes(config: type) -> str:
    """The activations that the method takes. Some releases ask an object, which is made without its arguments."""
    made: Any = object.__new__(config)
    takes = made.get_supported_act_dtypes()
    return ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in takes))


def _checkpoint(cell: Cell, name: str) -> Decision:
    """What vLLM's own walk over the methods makes of a checkpoint, with the user's own choice where there is one."""
    verify = getattr(find("vllm.config.model", "ModelConfig"), "_verify_quantization", None)
    if verify is None:
        raise Missing("ModelConfig._verify_quantization")
    scheme = cell.kernel.scheme
    stated = dict(_CHECKPOINTS[str(scheme.get("checkpoint", name))])
    hf_config = types.SimpleNamespace(
        model_type=str(scheme.get("model_type", "gfxloop")), quantization_config=stated, architectures=[]
    )
    model = types.SimpleNamespace(
        quantization=scheme.get("choice"),
        hf_config=hf_config,
        model_arch_config=types.SimpleNamespace(quantization_config=stated),
        _parse_quant_hf_config=lambda _hf_config: stated,  # vllm<0.14: asked of the model itself
        allow_deprecated_quantization=True,
    )
    try:
        verify(model)
    except ValueError as error:
        where = raised(error)
        return Decision(Ended.REFUSED, symbol=where.symbol, detail=str(error))
    return Decision(Ended.ANSWERED, str(model.quantization), "ModelConfig._verify_quantization")


_ASKS: Mapping[str, Callable[[Cell, str], Decision]] = {"config": _config, "checkpoint": _checkpoint}
