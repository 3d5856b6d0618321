"""MoE oracles by themselves: in which order an oracle asks its classes for a layer, and what its functions answer.

In: a cell of surface ``moe_oracle``, whose name is that of an oracle and of a part: ``fp8.layers``. Out: one line. The
classes are stood in for: the first question of a layer gets a yes, then the second alone, and so on until nobody is
left, so that every entry of a priority list and every branch shows on every target, also where no class fits. What
the classes themselves say is asked on surface ``experts``, and both together on surface ``moe``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from harness.adapters.answers import grouped, said
from harness.adapters.decision import Decision, Missing, answered, find
from harness.adapters.expert_configs import BASE, MOVED
from harness.adapters.moe import MoeRequest, moe_request
from harness.adapters.moe_config import KERNEL, key_names
from harness.adapters.oracle_functions import members, requested_backends, tables
from harness.adapters.switches import turned
from harness.model.cell import Cell
from harness.model.record import Ended

_PARTS = ("layers", "requests", "functions")

_MOST = 64
"""Questions of one layer after which an oracle is taken to ask without end."""

_SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "unquantized": {},
    "fp8": {"weight": "kFp8Static128BlockSym", "activation": "kFp8Dynamic128Sym"},
    "int8": {"weight": "kInt8StaticChannelSym", "activation": "kInt8DynamicTokenSym"},
    "mxfp4": {"weight": "kMxfp4Static"},
    "mxfp4_deepseek_v4": {"weight": "kMxfp4Static"},
    "mxfp8": {"weight": "kMxfp8Static", "activation": "kMxfp8Dynamic"},
    "nvfp4": {"weight": "kNvfp4Static", "activation": "kNvfp4Dynamic"},
    "wna16": {"weight": "kInt4Static", "group_size": 128, "zero_points": False},
    "w4a8": {"weight": "kInt4Static", "activation": "kFp8DynamicTokenSym"},
    "w4a8_int8": {"weight": "kInt4W4A8StaticGroup32Sym", "activation": "kInt8DynamicTokenSym"},
}
"""Oracle -> quantization of its base layer."""

_OWN: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "fp8": {
        "cutlass": {"cutlass": True},
        "channel": {"weight": "kFp8StaticChannelSym", "activation": "kFp8DynamicTokenSym"},
    },
    "mxfp4": {
        "mxfp4": {"activation": "kMxfp4Dynamic"},
        "mxfp8": {"activation": "kMxfp8Dynamic"},
        "fp8_static": {"activation": "kFp8StaticTensorSym"},
    },
    "nvfp4": {"a16": {"activation": None}},
    "wna16": {
        "asymmetric": {"weight": "kInt4StaticAsym", "zero_points": True},
        "channelwise": {"group_size": -1},
        "bits8": {"weight": "kInt8Static", "weight_bits": 8},
        "gptq": {"checkpoint": "gptq"},
        "awq": {"checkpoint": "awq", "zero_points": True},
        "moe_wna16": {"checkpoint": "moe_wna16"},
    },
}
"""Oracle -> layers of its own that differ from its base, by what differs."""

_ACTIVATIONS: Mapping[str, Mapping[str, Any]] = {
    "swigluoai": {"function": "swigluoai"},
    "relu2_no_mul": {"function": "relu2_no_mul"},
}

_REQUESTED = ("base", "batched", "lora", "limit", "cutlass", "mxfp4", "mxfp8", "fp8_static", "moe_wna16", "awq")
"""Layers with which a user asks for each backend by name."""

_SWITCHES = (
    "VLLM_ROCM_USE_AITER=0",
    "VLLM_ROCM_USE_AITER=1",
    "VLLM_ROCM_USE_AITER=1 VLLM_ROCM_USE_AITER_MOE=0",
    "VLLM_ROCM_USE_AITER_MOE=1",
    "VLLM_USE_DEEP_GEMM=0",
    "VLLM_USE_DEEP_GEMM=1",
    "VLLM_MOE_USE_DEEP_GEMM=0",
    "VLLM_CPU_INT4_W4A8=1",
    "VLLM_CPU_INT4_W4A8=0",
)
"""Variables that oracles read, set for the base layer, in standard and in batched form."""

_UNSET: Mapping[str, None] = dict.fromkeys(word.split("=")[0] for words in _SWITCHES for word in words.split())
"""Whatever the environment profile says: oracles ask whether a variable is set."""

_POSED: Mapping[str, Mapping[str, Any]] = {
    "tpu": {"is_tpu": lambda: True},
    "out_of_tree": {"is_out_of_tree": lambda: True},
    "sm120": {"is_device_capability_family": lambda family, *_: family == 120},
}
"""Platforms for which there is no simulated target, by the answers that differ from those of this one."""


@dataclass(frozen=True)
class _Situation:
    """One layer, in one environment, on this platform or one that is posed."""

    name: str
    scheme: Mapping[str, Any]
    env: Mapping[str, str | None] = field(default_factory=dict)
    posed: Mapping[str, Any] = field(default_factory=dict)


def decide_moe_oracle(cell: Cell) -> Decision:
    """Ask one oracle one part of its questions."""
    oracle, _, part = cell.kernel.name.partition(".")
    return answered(lambda: _decide(oracle, part))


def _decide(oracle: str, part: str) -> Decision:
    if oracle not in _SCHEMES or part not in _PARTS:
        raise Missing(f"part {part!r} of an oracle {oracle!r}")
    base = moe_request({"oracle": oracle, **BASE, **_SCHEMES[oracle]})
    module = importlib.import_module(base.selector.__module__)
    with turned(_UNSET), _Classes(module) as classes:
        if part == "functions":
            line = tables(module, oracle, _SCHEMES[oracle])
        else:
            situations = _layers(oracle) if part == "layers" else _requests(oracle)
            line = grouped(_chains(classes, situations))
    return Decision(Ended.ANSWERED, line, base.selector.__name__)


# ---- the situations


def _layers(oracle: str) -> Iterator[_Situation]:
    base = {"oracle": oracle, **BASE, **_SCHEMES[oracle]}
    for name, scheme in {**MOVED, **_ACTIVATIONS, **_OWN.get(oracle, {})}.items():
        yield _Situation(name, {**base, **scheme})
    for words in _SWITCHES:
        env = dict(word.split("=", 1) for word in words.split())
        yield _Situation(words, base, env=env)
        yield _Situation(f"{words} batched", {**base, **MOVED["batched"]}, env=env)
    for name, posed in _POSED.items():
        yield _Situation(name, base, posed=posed)


def _requests(oracle: str) -> Iterator[_Situation]:
    base = {"oracle": oracle, **BASE, **_SCHEMES[oracle]}
    layers = {**MOVED, **_OWN.get(oracle, {})}
    for backend in requested_backends():
        for name in (name for name in _REQUESTED if name in layers):
            words = backend if name == "base" else f"{backend}+{name}"
            yield _Situation(words, {**base, **layers[name], "backend": backend})
    yield _Situation("b12x forced", {**base, "backend": "b12x"}, env={"VLLM_B12X_MOE_FP4_FORCE_A16": "1"})


# ---- the classes stood in for


class _Classes(AbstractContextManager["_Classes"]):
    """``is_supported_config`` of every loaded class stood in for: yes to one question alone, no to all others.

    A class that is asked for other keys or another format than those of the request is written down with them.
    """

    def __init__(self, oracle: Any) -> None:
        self.asked: list[str] = []
        self.yes = -1
        self.request: MoeRequest | None = None
        self._names = key_names()
        self._stack = ExitStack()
        _load(oracle)

    def __enter__(self) -> _Classes:
        for cls in _family(importlib.import_module(KERNEL).FusedMoEExperts):
            if "is_supported_config" in vars(cls):
                self._stack.enter_context(patch.object(cls, "is_supported_config", staticmethod(self._answer)))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _answer(self, cls: Any, moe_config: Any, weight_key: Any, activation_key: Any, activation_format: Any) -> Any:
        own = self.request
        expected = (own.weight, own.activation) if own is not None else (weight_key, activation_key)
        asked = zip((weight_key, activation_key), expected, strict=True)
        odd = [str(self._names.get(key, key)) for key, usual in asked if key != usual]
        if own is not None and (activation_format.name == "BatchedExperts") is not _batched(own):
            odd.append(activation_format.name)
        self.asked.append(cls.__name__ + (f"[{' '.join(odd)}]" if odd else ""))
        yes = len(self.asked) - 1 == self.yes
        return yes, None if yes else "of a stand-in"


def _batched(request: MoeRequest) -> bool:
    return bool(request.config.moe_parallel_config.use_batched_activation_format)


def _load(oracle: Any) -> None:
    """Import the classes of an oracle, before any is stood in for; one that needs a package is never reached."""
    for backend in members(oracle):
        for name in ("backend_to_kernel_cls", "_mxfp8_backend_to_kernel_cls"):
            try:
                getattr(oracle, name, lambda _: None)(backend)
            except (ValueError, ImportError):
                continue
    try:
        importlib.import_module("vllm.model_executor.layers.fused_moe.experts.trtllm_lora_moe")
    except ImportError:  # vllm<0.31: no such module
        return


def _family(cls: type) -> Iterator[type]:
    yield cls
    subclasses: list[type] = cls.__subclasses__()
    for below in subclasses:
        yield from _family(below)


# ---- the chains


def _chains(classes: _Classes, situations: Iterator[_Situation]) -> Iterator[tuple[str, str]]:
    for situation in situations:
        with ExitStack() as stack:
            stack.enter_context(turned(situation.env) if situation.env else nullcontext())
            platform = find("vllm.platforms", "current_platform")
            for name, answer in situation.posed.items():
                stack.enter_context(patch.object(platform, name, answer))
            try:
                request = moe_request(situation.scheme)
            except (Missing, NotImplementedError):  # the release, or the platform, has no such layer
                continue
            yield situation.name, _chain(classes, request)


def _chain(classes: _Classes, request: MoeRequest) -> str:
    """``AITER/AiterExperts > TRITON/TritonExperts > NotImplementedError: words``: who is taken, each alone."""
    taken: list[str] = []
    classes.request = request
    for classes.yes in range(_MOST):
        classes.asked.clear()
        answer = _answer(request)
        if len(classes.asked) <= classes.yes:
            return " > ".join((*_short(taken), answer))
        asked = classes.asked[classes.yes]
        backend, _, experts = answer.partition("/")
        same = experts == asked.partition("[")[0]
        taken.append(f"{backend}/{asked}" if same else f"{asked} gives {answer}")
    return " > ".join((*_short(taken), "without end"))


def _short(taken: list[str]) -> Iterator[str]:
    """Backends whose several classes follow each other are named once."""
    before = ""
    for name in taken:
        backend, _, experts = name.partition("/")
        yield f"/{experts}" if experts and backend == before else name
        before = backend


def _answer(request: MoeRequest) -> str:
    try:
        answer = request.selector(**request.arguments)
    except Exception as error:  # whatever is raised is the answer
        words = str(error).replace(repr(request.config.moe_backend), "it")
        return f"{type(error).__name__}: {said(words)}".rstrip(": ")
    backend, experts = answer if isinstance(answer, tuple) else (answer, None)
    return backend.name if experts is None else f"{backend.name}/{experts.__name__}"
