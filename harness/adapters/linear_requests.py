"""What a class of linear kernels is asked about: vLLM's own layer configurations, one thing moved at a time.

In: the name of an interface of kernels. Out: questions, each a predicate of the class and its arguments, in groups that
belong together. It must not ask them, and must not know which class is meant for what.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.adapters.decision import Missing, find
from harness.adapters.watch import accepted_arguments

LINEAR = "vllm.model_executor.kernels.linear"
"""Package of the linear kernels; vllm<0.17: they are elsewhere."""

_KEYS = "vllm.model_executor.layers.quantization.utils.quant_utils"

_CAPABILITIES = (None, 60, 70, 75, 80, 89, 90, 94, 100, 110, 120)
"""Numbers that a selector may pass; None: it leaves the question to the class."""

_Shape = tuple[int, int]
_Values = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """One question to a class."""

    group: str
    words: str
    predicate: str
    arguments: tuple[Any, ...]


def questions_of(interface: str) -> tuple[Question, ...]:
    """Every question to the classes below ``interface``, which every release that has it can be asked.

    Raises:
        Missing: the release has no such interface.
    """
    if interface not in _BUILDERS or find(LINEAR, interface) is None:
        raise Missing(f"interface {interface} of linear kernels")
    return (*_device_questions(), *_BUILDERS[interface]())


def quant_keys() -> Mapping[str, Any]:
    """Quantization keys of the release by name."""
    module = importlib.import_module(_KEYS)
    return {name: key for name, key in sorted(vars(module).items()) if isinstance(key, module.QuantKey)}


def _device_questions() -> Iterator[Question]:
    for number in _CAPABILITIES:
        yield Question("device", str(number), "is_supported", (number,))


def _configured(group: str, words: str, config: Any) -> Question:
    return Question(group, words, "can_implement", (config,))


def _moved(config: Any, group: str, base: _Values, changes: Iterator[tuple[str, _Values]]) -> Iterator[Question]:
    """A request as it is, and with each change that makes another of it."""
    first = config(**accepted_arguments(config, base))
    yield _configured(group, "plain", first)
    for words, change in changes:
        other = config(**accepted_arguments(config, {**base, **change}))
        if other != first:
            yield _configured(group, words, other)


# ---- mixed precision: [K, N], as MPLinearLayerConfig has it

_MIXED: Mapping[str, _Values] = {
    "gptq": {"weight_type": "uint4b8", "act_type": "bfloat16", "group_size": 128},
    "gptq_fp16": {"weight_type": "uint4b8", "act_type": "float16", "group_size": 128},
    "gptq_channel": {"weight_type": "uint4b8", "act_type": "bfloat16", "group_size": -1},
    "gptq8_fp16": {"weight_type": "uint8b128", "act_type": "float16", "group_size": 128},
    "awq": {"weight_type": "uint4", "act_type": "bfloat16", "group_size": 128, "zero_points": True},
    "awq_fp16": {"weight_type": "uint4", "act_type": "float16", "group_size": 128, "zero_points": True},
    "w4a8_fp8": {"weight_type": "int4", "act_type": "float8_e4m3fn", "group_size": 128, "out_type": "bfloat16"},
    "w4a8_int8": {"weight_type": "int4", "act_type": "float16", "group_size": 32},
}
"""Kinds of checkpoint: weight type (a member of ``scalar_types``), activation dtype, group size along K."""

_MIXED_SHAPES: Mapping[str, tuple[_Shape, _Shape]] = {
    "K 4104": ((4104, 4096), (4104, 4096)),
    "K 4112": ((4112, 4096), (4112, 4096)),
    "K 4128": ((4128, 4096), (4128, 4096)),
    "K 4160": ((4160, 4096), (4160, 4096)),
    "N 4097": ((4096, 4097), (4096, 4097)),
    "N 4098": ((4096, 4098), (4096, 4098)),
    "N 4100": ((4096, 4100), (4096, 4100)),
    "N 4104": ((4096, 4104), (4096, 4104)),
    "N 4112": ((4096, 4112), (4096, 4112)),
    "N 4160": ((4096, 4160), (4096, 4160)),
    "N split over 8": ((4096, 4096), (4096, 512)),
    "K split over 8": ((4096, 4096), (512, 4096)),
    "K split inside a group": ((4160, 4096), (2080, 4096)),
    "K split to whole groups": ((4104, 4096), (4096, 4096)),
}
"""Whole and rank's share of the weight, where they are not 4096 x 4096."""

_ACTIVATIONS = ("bfloat16", "float16", "float32", "float8_e4m3fn", "int8")
_GROUPS = (-1, 16, 32, 48, 64, 128, 256, 4096)


def _mixed_precision() -> Iterator[Question]:
    import torch

    config = find(LINEAR, "MPLinearLayerConfig")
    types = importlib.import_module("vllm.scalar_type").scalar_types
    known = {name: value for name, value in sorted(vars(types).items()) if type(value).__name__ == "ScalarType"}
    shape = (4096, 4096)
    for name, base in _MIXED.items():
        values = {
            "full_weight_shape": shape,
            "partition_weight_shape": shape,
            "zero_points": False,
            "has_g_idx": False,  # vllm<0.30: asked
            **base,
            "weight_type": known[str(base["weight_type"])],
            "act_type": getattr(torch, str(base["act_type"])),
            "out_type": getattr(torch, str(base["out_type"])) if "out_type" in base else None,
        }
        yield from _moved(config, name, values, _mixed_changes(known, bool(values["zero_points"])))


def _mixed_changes(types: Mapping[str, Any], zero_points: bool) -> Iterator[tuple[str, _Values]]:
    import torch

    for name, value in types.items():
        yield name, {"weight_type": value}
    for name in _ACTIVATIONS:
        yield f"{name} activations", {"act_type": getattr(torch, name)}
    for size in _GROUPS:
        yield f"groups of {size}", {"group_size": size}
    yield "zero points" if not zero_points else "no zero points", {"zero_points": not zero_points}
    yield "g_idx", {"has_g_idx": True}
    for name in ("bfloat16", "float16"):
        yield f"{name} out", {"out_type": getattr(torch, name)}
    for words, (whole, share) in _MIXED_SHAPES.items():
        yield words, {"full_weight_shape": whole, "partition_weight_shape": share}


# ---- FP8: [N, K], as FP8ScaledMMLinearLayerConfig has it

_FP8: Mapping[str, tuple[str, str]] = {
    "tensor_static": ("kFp8StaticTensorSym", "kFp8StaticTensorSym"),
    "tensor_dynamic": ("kFp8StaticTensorSym", "kFp8DynamicTensorSym"),
    "token_channel": ("kFp8StaticChannelSym", "kFp8DynamicTokenSym"),
    "token_tensor": ("kFp8StaticTensorSym", "kFp8DynamicTokenSym"),
    "block": ("kFp8Static128BlockSym", "kFp8Dynamic128Sym"),
}
"""Kinds of checkpoint: keys of weight and activation."""

_WEIGHTS = re.compile(r"kFp8Static(Tensor|Token|Channel|128Block)Sym")
_ACTIVATIONS_FP8 = re.compile(r"kFp8(StaticTensor|Dynamic\w+)Sym|kMxfp8Dynamic")

_FP8_SHAPES: tuple[_Shape | None, ...] = (
    None, (8, 4096), (4096, 8), (4100, 4096), (4096, 4100), (4104, 4096), (4096, 4104), (4112, 4096), (4096, 4112),
    (4160, 4096), (4096, 4160),
)  # fmt: skip
"""Weights [N, K] beside 4096 x 4096; None is asked because kernels look for it."""


def _fp8() -> Iterator[Question]:
    import torch

    config = find(LINEAR, "FP8ScaledMMLinearLayerConfig")
    keys = quant_keys()
    weights, activations = ([name for name in keys if form.fullmatch(name)] for form in (_WEIGHTS, _ACTIVATIONS_FP8))
    plain = {"weight_shape": (4096, 4096), "input_dtype": torch.bfloat16, "out_dtype": torch.bfloat16}
    for weight, activation in itertools.product(weights, activations):
        both = {"weight_quant_key": keys[weight], "activation_quant_key": keys[activation]}
        words = f"{_short(weight)}/{_short(activation)}"
        yield _configured("scheme", words, config(**accepted_arguments(config, {**plain, **both})))
    for name, (weight, activation) in _FP8.items():
        both = {"weight_quant_key": keys[weight], "activation_quant_key": keys[activation]}
        yield from _moved(config, name, {**plain, **both}, _fp8_changes())


def _short(name: str) -> str:
    """``StaticTensor`` of ``kFp8StaticTensorSym``."""
    return name.removeprefix("k").removeprefix("Fp8").removesuffix("Sym")


def _fp8_changes() -> Iterator[tuple[str, _Values]]:
    import torch

    for shape in _FP8_SHAPES:
        yield f"N x K {shape[0]} x {shape[1]}" if shape else "no shape", {"weight_shape": shape}
    for name in ("float16", "float32"):
        dtype = getattr(torch, name)
        yield f"{name} in", {"input_dtype": dtype}
        yield f"{name} out", {"out_dtype": dtype}
        yield name, {"input_dtype": dtype, "out_dtype": dtype}


# ---- the others: few things to move, so all of their products


def _int8() -> Iterator[Question]:
    config = find(LINEAR, "Int8ScaledMMLinearLayerConfig")
    flags = ("is_channelwise", "is_static_input_scheme", "input_symmetric", "is_fused_module")  # vllm<0.33: the last
    taken = list(accepted_arguments(config, dict.fromkeys(flags, False)))
    for values in itertools.product((False, True), repeat=len(taken)):
        said = dict(zip(taken, values, strict=True))
        words = " ".join(name.removeprefix("is_") for name, value in said.items() if value) or "plain"
        yield _configured("scheme", words, config(**said))


def _mxfp4() -> Iterator[Question]:
    config = find(LINEAR, "MxFp4LinearLayerConfig")
    keys = {"unquantized": None, **quant_keys()}
    if accepted_arguments(config, {"activation_quant_key": None}):  # vllm<0.27: it has none
        for name, key in keys.items():
            yield _configured("activation", name, config(activation_quant_key=key))
    else:
        yield _configured("layer", "plain", config())
    for weight, activation in itertools.product(keys, keys):
        if weight == "kMxfp4Static" or activation in _MX_ACTIVATIONS:
            group = "scheme" if weight == "kMxfp4Static" else "other weights"
            words = f"{weight}/{activation}"
            yield Question(group, words, "_supports_quant_scheme", (keys[weight], keys[activation]))


_MX_ACTIVATIONS = ("unquantized", "kMxfp4Dynamic", "kMxfp8Dynamic", "kMxfp6E3M2Dynamic", "kInt8Dynamic32Sym")
"""Activations that kernels of MX weights are written for."""


def _mxfp6() -> Iterator[Question]:
    config = find(LINEAR, "MxFp6LinearLayerConfig")
    keys = quant_keys()
    for name, key in {"unquantized": None, **keys}.items():
        for weight in ("kMxfp6E3M2Static", "kMxfp6E2M3Static"):
            yield _configured("activation", f"{weight}/{name}", config(keys[weight], key))
    for name, key in keys.items():
        yield _configured("weight", name, config(key, None))


def _mxfp8() -> Iterator[Question]:
    config = find(LINEAR, "Mxfp8LinearLayerConfig")
    changes: list[tuple[str, _Values]] = [
        (f"N x K {shape[0]} x {shape[1]}", {"weight_shape": shape}) for shape in _FP8_SHAPES if shape
    ]
    changes += [(f"batches of {size}", {"bmm_batch_size": size}) for size in (0, 1, 8)]
    yield from _moved(config, "layer", {"weight_shape": (4096, 4096), "bmm_batch_size": None}, iter(changes))


def _nvfp4() -> Iterator[Question]:
    yield _configured("layer", "plain", find(LINEAR, "NvFp4LinearLayerConfig")())


_BUILDERS: Mapping[str, Callable[[], Iterator[Question]]] = {
    "MPLinearKernel": _mixed_precision,
    "FP8ScaledMMLinearKernel": _fp8,
    "Fp8BlockScaledMMLinearKernel": _fp8,
    "Int8ScaledMMLinearKernel": _int8,
    "MxFp4LinearKernel": _mxfp4,
    "MxFp6LinearKernel": _mxfp6,
    "Mxfp8LinearKernel": _mxfp8,
    "NvFp4LinearKernel": _nvfp4,
}
"""Interface, by the name that the package exports -> the questions to its classes."""
