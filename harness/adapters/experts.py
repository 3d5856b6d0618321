"""Expert classes of MoE: which requests each class says it supports, asked of its own static predicates.

In: a cell of surface ``experts``, whose kernel is a class. Out: one candidate a question, and what is accepted as one
stable line, so that an entry taken out of an allowlist shows. With ``layers`` the class is also asked about whole
layers (``expert_configs.py``), which reads more of the packages that a class is written for. A scheme that names
quantization keys asks for that one pair alone. It must not build an experts object, and must not weigh an answer.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.adapters.decision import Decision, Missing, find, raised, unsupported
from harness.adapters.expert_configs import halves, whole
from harness.adapters.moe_config import CONFIG, activations, parallel_config, quant_key
from harness.model.cell import Cell
from harness.model.record import Candidate, Category, Ended

_PACKAGE = "vllm.model_executor.layers.fused_moe"

QUANT_PAIRS: Mapping[str, tuple[str | None, str | None]] = {
    "none": (None, None),
    "fp8_block": ("kFp8Static128BlockSym", "kFp8Dynamic128Sym"),
    "fp8_block_e8m0": ("kFp8Static128BlockE8M0Sym", "kFp8Dynamic128Sym"),
    "fp8_block_a16": ("kFp8Static128BlockSym", None),
    "fp8_channel": ("kFp8StaticChannelSym", "kFp8DynamicTokenSym"),
    "fp8_channel_static": ("kFp8StaticChannelSym", "kFp8StaticTensorSym"),
    "fp8_channel_a16": ("kFp8StaticChannelSym", None),
    "fp8_tensor_token": ("kFp8StaticTensorSym", "kFp8DynamicTokenSym"),
    "fp8_tensor_static": ("kFp8StaticTensorSym", "kFp8StaticTensorSym"),
    "fp8_tensor_dynamic": ("kFp8StaticTensorSym", "kFp8DynamicTensorSym"),
    "fp8_tensor_a16": ("kFp8StaticTensorSym", None),
    "int8_channel": ("kInt8StaticChannelSym", "kInt8DynamicTokenSym"),
    "int8_channel_asym": ("kInt8StaticChannelSym", "kInt8DynamicTokenAsym"),
    "int8_tensor": ("kInt8StaticTensorSym", "kInt8DynamicTensorSym"),
    "int8_tensor_static": ("kInt8StaticTensorSym", "kInt8StaticTensorSym"),
    "int8_a16": ("kInt8Static", None),
    "mxfp4_a16": ("kMxfp4Static", None),
    "mxfp4_mxfp4": ("kMxfp4Static", "kMxfp4Dynamic"),
    "mxfp4_mxfp8": ("kMxfp4Static", "kMxfp8Dynamic"),
    "mxfp4_fp8_static": ("kMxfp4Static", "kFp8StaticTensorSym"),
    "mxfp4_fp8_dynamic": ("kMxfp4Static", "kFp8DynamicTensorSym"),
    "mxfp4_fp8_token": ("kMxfp4Static", "kFp8DynamicTokenSym"),
    "mxfp4_fp8_block": ("kMxfp4Static", "kFp8Dynamic128Sym"),
    "mxfp6_e3m2_a16": ("kMxfp6E3M2Static", None),
    "mxfp6_e3m2": ("kMxfp6E3M2Static", "kMxfp6E3M2Dynamic"),
    "mxfp6_e2m3_a16": ("kMxfp6E2M3Static", None),
    "mxfp6_e2m3": ("kMxfp6E2M3Static", "kMxfp6E2M3Dynamic"),
    "mxfp8": ("kMxfp8Static", "kMxfp8Dynamic"),
    "mxfp8_a16": ("kMxfp8Static", None),
    "nvfp4": ("kNvfp4Static", "kNvfp4Dynamic"),
    "nvfp4_token": ("kNvfp4Static", "kNvfp4DynamicToken"),
    "nvfp4_a16": ("kNvfp4Static", None),
    "int4_a16": ("kInt4Static", None),
    "int4_g32_a16": ("kInt4Static32", None),
    "int4_asym_a16": ("kInt4StaticAsym", None),
    "int4_g32_asym_a16": ("kInt4Static32Asym", None),
    "int4_fp8": ("kInt4Static", "kFp8DynamicTokenSym"),
    "int4_int8_g128": ("kInt4W4A8StaticGroup128Sym", "kInt8DynamicTokenSym"),
    "int4_int8_g64": ("kInt4W4A8StaticGroup64Sym", "kInt8DynamicTokenSym"),
    "int4_int8_g32": ("kInt4W4A8StaticGroup32Sym", "kInt8DynamicTokenSym"),
    "int4_int8_group": ("kInt4W4A8StaticGroupSym", "kInt8DynamicTokenSym"),
    "int4_int8_channel": ("kInt4W4A8StaticChannelSym", "kInt8DynamicTokenSym"),
}
"""Scheme -> names of its weight and activation keys. A release that lacks a key is not asked for the pair."""

_DEPLOYMENTS: Mapping[str, Mapping[str, Any]] = {
    "tp": {"tp": 8},
    "ep": {"ep": 8},
    "dp": {"tp": 8, "dp": 8},
    "eplb": {"eplb": True},
    "ep_eplb": {"ep": 8, "eplb": True},
    **{
        backend: {"ep": 8, "dp": 8, "all2all": backend}
        for backend in (
            "allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency", "deepep_v2",
            "flashinfer_nvlink_two_sided", "flashinfer_nvlink_one_sided", "mori", "mori_high_throughput",
            "mori_low_latency", "nixl_ep", "moonep", "passthrough",
        )
    },
}  # fmt: skip
"""Deployment -> arguments of ``parallel_config``; those with an all-to-all spread experts and tokens over 8 ranks."""

_HIDDEN = (2880, 4096, 7168)
"""Hidden sizes of gpt-oss, Qwen3-235B and Mixtral, and DeepSeek-V3."""

_LOGITS = ("bfloat16", "float32")


@dataclass(frozen=True)
class _Answer:
    """One question to the class; ``accepted`` is None where the predicate raises, with ``why``."""

    subject: str
    words: str
    accepted: bool | None
    why: str = ""


def decide_experts(cell: Cell) -> Decision:
    """Ask one experts class for everything, or for the one pair of quantization keys that the scheme names."""
    scheme = cell.kernel.scheme
    name = str(scheme.get("class", cell.kernel.name))
    try:
        experts = _class(name, scheme.get("module"))
    except ModuleNotFoundError as error:
        if str(error.name).startswith("vllm"):
            return raised(error)
        return unsupported(f"package {error.name}, which the module of experts class {name} imports")
    if experts is None:
        return unsupported(f"experts class {name}")
    try:
        one = "weight" in scheme
        answers = tuple(_one(experts, cell) if one else _all(experts))
        line = "" if one else "; ".join(_parts(experts, answers, layers=bool(scheme.get("layers", False))))
    except Missing as missing:
        return unsupported(str(missing))
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    accepted = "accepted" if all(answer.accepted for answer in answers) else "refused"
    return Decision(
        Ended.ANSWERED,
        accepted if one else line,
        f"{name}._supports_quant_scheme" if one else name,
        candidates=tuple(_candidate(answer) for answer in answers),
    )


def _class(name: str, module: object) -> Any:
    where = str(module) if module is not None else _modules().get(name)
    return None if where is None else find(where, name)


@functools.cache
def _modules() -> Mapping[str, str]:
    """Class -> module, read from the text of the release's ``fused_moe`` package: classes move between releases."""
    found: dict[str, str] = {}
    for folder in importlib.import_module(_PACKAGE).__path__:
        for path in sorted(Path(folder).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                found.setdefault(name, ".".join((_PACKAGE, *parts)))
    return found


# ---- the questions


def _one(experts: Any, cell: Cell) -> Iterator[_Answer]:
    scheme = cell.kernel.scheme
    names = [None if scheme.get(role) is None else str(scheme[role]) for role in ("weight", "activation")]
    weight, activation = (quant_key(name) for name in names)
    yield _ask(experts, "device", "", "_supports_current_device")
    yield _ask(experts, "scheme", f"{names[0]} {names[1]}", "_supports_quant_scheme", weight, activation)


def _all(experts: Any) -> Iterator[_Answer]:
    """Every question, whatever was answered before: an allowlist is seen on the targets that never reach it too."""
    yield _ask(experts, "device", "", "_supports_current_device")
    yield _ask(experts, "non_gated", "", "_supports_no_act_and_mul")
    for name, activation in activations().items():
        yield _ask(experts, "activation", name, "_supports_activation", activation)
    pairs = dict(_pairs())
    schemes = [_ask(experts, "scheme", name, "_supports_quant_scheme", *keys) for name, keys in pairs.items()]
    yield from schemes
    for name, arguments in _DEPLOYMENTS.items():
        yield _ask(experts, "deployment", name, "_supports_parallel_config", parallel_config(**arguments))
    monolithic = _ask(experts, "monolithic", "", "is_monolithic")
    yield monolithic
    if monolithic.accepted:  # the others are handed the routes
        yield from _routing(experts, {answer.words: pairs[answer.words] for answer in schemes if answer.accepted})
    for size in _HIDDEN:
        yield _ask(experts, "hidden", str(size), "_supports_shape", size)
    yield _ask(experts, "invariant", "", "_supports_batch_invariance")
    yield _ask(experts, "lora", "", "supports_lora")
    if hasattr(experts, "_supports_hash_routing"):  # vllm<0.32: no such question
        yield _ask(experts, "hash_routing", "", "_supports_hash_routing")
    yield _ask(experts, "batched", "", "activation_format", read=lambda form: str(form.name) == "BatchedExperts")


def _pairs() -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, (weight, activation) in QUANT_PAIRS.items():
        try:
            yield name, (quant_key(weight), quant_key(activation))
        except Missing:
            continue


def _routing(experts: Any, taken: Mapping[str, tuple[Any, Any]]) -> Iterator[_Answer]:
    """Routing methods with each scheme the class takes, and the dtypes of router logits with each method."""
    import torch

    methods = importlib.import_module(CONFIG).RoutingMethodType.__members__
    for name, method in methods.items():
        for scheme, keys in taken.items():
            yield _ask(experts, "routing", f"{name}[{scheme}]", "_supports_routing_method", method, *keys)
        for dtype in _LOGITS:
            words = f"{dtype}[{name}]"
            yield _ask(experts, "logits", words, "_supports_router_logits_dtype", getattr(torch, dtype), method)


def _ask(
    experts: Any, subject: str, words: str, predicate: str, *arguments: Any, read: Callable[[Any], bool] = bool
) -> _Answer:
    """One question. A class that no oracle may ask answers ``NotImplementedError``; anything else is a fault."""
    try:
        return _Answer(subject, words, read(getattr(experts, predicate)(*arguments)), f"{predicate} is False")
    except NotImplementedError as error:
        return _Answer(subject, words, None, f"{predicate} raises NotImplementedError: {error}".rstrip(": "))


# ---- the answer


def _candidate(answer: _Answer) -> Candidate:
    accepted = bool(answer.accepted)
    return Candidate(
        name=f"{answer.subject} {answer.words}".strip(),
        accepted=accepted,
        reason="" if accepted else answer.why,
        category=None if accepted else Category.SCHEME if answer.subject == "scheme" else Category.OTHER,
    )


def _parts(experts: Any, answers: tuple[_Answer, ...], *, layers: bool) -> Iterator[str]:
    """Predicate by predicate, and then the question that oracles ask."""
    yield _line(answers)
    if not layers:
        return
    pairs = dict(_pairs())
    yield whole(experts, {one.words: pairs[one.words] for one in answers if one.subject == "scheme" and one.accepted})
    if of_halves := halves(experts):
        yield f"halves [{of_halves}]"


def _line(answers: Iterable[_Answer]) -> str:
    """``device; activation=silu,gelu; hidden=all; no lora; ...``: what is accepted, question by question."""
    groups: dict[str, list[_Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.subject, []).append(answer)
    return "; ".join(_said(subject, group) for subject, group in groups.items())


def _said(subject: str, group: list[_Answer]) -> str:
    if all(answer.accepted is None for answer in group):
        return f"{subject} unanswered"
    if not group[0].words:
        return subject if group[0].accepted else f"no {subject}"
    accepted = [answer.words for answer in group if answer.accepted]
    others = [answer.words for answer in group if not answer.accepted]
    if len(accepted) > len(others):
        return f"{subject}=all" + (f" but {','.join(others)}" if others else "")
    return f"{subject}={','.join(accepted) or 'none'}"
