"""Functions of an oracle's module asked over their whole domain, as far as their parameters' names tell it.

In: the module of an oracle. Out: one line: for each function what it answers to which input. It asks functions that
take backends, layers, keys and flags alone; one that wants a tensor or a built layer is none of these.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, get_args

from harness.adapters.answers import counted, grouped, said, shown
from harness.adapters.decision import Missing, find
from harness.adapters.expert_configs import BASE, MOVED
from harness.adapters.moe import quant_config
from harness.adapters.moe_config import activations, key_names, moe_config, quant_key

Domain = Mapping[str, Any]
"""Name of an input -> the input."""

_NOT_ASKED = ("select_", "make_", "_make_", "_warn", "convert_", "_humming_")
"""Beginnings of names of functions that are asked elsewhere, build something, only log, or need a package."""

_KEYS = (
    "kFp8Static128BlockSym", "kFp8Dynamic128Sym", "kFp8StaticTensorSym", "kMxfp8Dynamic", "kMxfp4Static",
    "kMxfp4Dynamic",
)  # fmt: skip

_LAYERS: Mapping[str, Mapping[str, Any]] = {
    **{name: MOVED[name] for name in ("base", "tp8", "ep8", "dp8", "deepep_v2", "lora", "bias", "intermediate2880")},
    "swigluoai": {"function": "swigluoai"},
    "tp8_triton": {"tp": 8, "backend": "triton"},
    "tp8_cutlass": {"tp": 8, "backend": "cutlass"},
    "tp8_deep_gemm": {"tp": 8, "backend": "deep_gemm"},
    "tp8_marlin_1032": {"tp": 8, "backend": "marlin", "intermediate": 1032},
}

_WITH_GROUPS = ("base", "tp8", "intermediate2880")
"""Layers for an oracle that also asks for the checkpoint: the domain would be too large."""

_FORMS = ("compressed_tensors", "gptq", "awq", "moe_wna16")

_MOST = 20000
"""Inputs of one function; a domain that is larger is not asked."""


def tables(module: Any, oracle: str, scheme: Mapping[str, Any]) -> str:
    """What every function of the module answers, in the order in which they stand.

    Args:
        module: the oracle's module.
        oracle: its name in a scheme.
        scheme: quantization of its base layer.
    """
    domains = _domains(module, oracle, scheme)
    names = key_names()
    parts = []
    for name, function in vars(module).items():
        parameters = _parameters(module, name, function)
        if parameters is None or not all(parameter in domains for parameter in parameters):
            continue
        inputs = [domains[parameter] for parameter in parameters]
        if math.prod(map(len, inputs)) <= _MOST:
            parts.append(f"{name} [{_table(function, inputs, names) if inputs else _ask(function, (), names)}]")
    return "; ".join(parts)


def _parameters(module: Any, name: str, function: Any) -> list[str] | None:
    """Names of the parameters of a function that is the module's own; None for anything else."""
    if not inspect.isfunction(function) or function.__module__ != module.__name__ or name.startswith(_NOT_ASKED):
        return None
    return list(inspect.signature(function).parameters)


def _domains(module: Any, oracle: str, scheme: Mapping[str, Any]) -> dict[str, Domain]:
    backends: Domain = {member.name: member for member in members(module)}
    keys: Domain = {"None": None, **{name: quant_key(name) for name in _KEYS}}
    layers = dict(_layers(scheme))
    flags: Domain = {"no": False, "yes": True}
    sizes: Domain = {str(size): size for size in (192, 360, 1032, 1536, 2880, 4096)}
    return {
        **dict.fromkeys(("backend", "requested_backend", "mxfp4_backend", "nvfp4_backend", "fp8_backend"), backends),
        **dict.fromkeys(("moe_config", "config"), layers),
        **dict.fromkeys(("weight_key", "activation_key", "requested_activation_key", "model_activation_key"), keys),
        **dict.fromkeys(("may_have_zp", "may_have_bias", "allow_tile_padding", "is_checkpoint_fp8_serialized"), flags),
        "checkpoint_uses_a16": flags,
        **dict.fromkeys(("hidden_size", "intermediate_size", "intermediate", "size"), sizes),
        "runner_backend": {name: name for name in requested_backends()},
        "weight_block_size": {"128x128": [128, 128], "64x64": [64, 64], "128x64": [128, 64]},
        "activation": {"None": None, **activations()},
        "backends": {"all": list(backends.values())},
        "experts_cls": dict(_classes(module, backends)),
        "quant_config": dict(_checkpoints()) if oracle == "wna16" else {},
    }


def requested_backends() -> tuple[str, ...]:
    """Every name that a user can ask for, those that oracles know beside them, and one that nobody knows."""
    known = get_args(find("vllm.config.kernel", "MoEBackend"))
    return tuple(dict.fromkeys((*(name for name in known if name != "auto"), "cpu", "xpu", "no_such_backend")))


def members(module: Any) -> Iterator[Any]:
    """The backends that an oracle knows."""
    for name, value in vars(module).items():
        if name.lower().endswith("moebackend") and isinstance(value, type) and issubclass(value, Enum):
            yield from value


def _layers(scheme: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, moved in _LAYERS.items():
        if "group_size" in scheme and name not in _WITH_GROUPS:
            continue
        try:
            yield name, moe_config({**BASE, **scheme, **moved})
        except (Missing, NotImplementedError):  # the release, or the platform, has no such layer
            continue


def _classes(module: Any, backends: Domain) -> Iterator[tuple[str, Any]]:
    """The class of the first backend, which stands for any."""
    for backend in backends.values():
        try:
            cls = module.backend_to_kernel_cls(backend)
        except (AttributeError, ValueError, ImportError):
            continue
        cls = cls[0] if isinstance(cls, list) else cls  # vllm<0.21: one class
        yield cls.__name__, cls
        return


def _checkpoints() -> Iterator[tuple[str, Any]]:
    for form, group, ordered in itertools.product(_FORMS, (128, 126, -1), (False, True)):
        try:
            yield f"{form}_{group}{'_ordered' * ordered}", quant_config(form, 4, group, form == "awq", ordered=ordered)
        except (Missing, ValueError):  # the release has no such checkpoint
            continue


def _table(function: Callable[..., Any], inputs: list[Domain], names: Mapping[Any, str]) -> str:
    first, *rest = inputs
    if not rest:
        return grouped((name, _ask(function, (value,), names)) for name, value in first.items())
    rows = []
    for name, value in first.items():
        below = itertools.product(*(domain.items() for domain in rest))
        answers = (
            (" ".join(word for word, _ in point), _ask(function, (value, *(item for _, item in point)), names))
            for point in below
        )
        rows.append((name, counted(answers)))
    return grouped(rows)


def _ask(function: Callable[..., Any], arguments: tuple[Any, ...], names: Mapping[Any, str]) -> str:
    given = [copy.copy(one) if hasattr(one, "moe_parallel_config") else one for one in arguments]  # some change it
    try:
        return shown(function(*given), names)
    except Exception as error:  # whatever is raised is the answer
        words = str(error)
        for argument in arguments:
            words = words.replace(repr(argument), "it") if isinstance(argument, str) else words
        return f"{type(error).__name__}: {said(words)}".rstrip(": ")
