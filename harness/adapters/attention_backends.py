"""Attention backend classes: what each class of vLLM's registry says it supports on this device.

In: a cell of surface ``attention_backend``: a member of the registry (``backend``, else the kernel's name), and perhaps
one predicate (``ask``); or ``modules``, which ``attention_classes.py`` asks. Out: that predicate's answer, or a profile
of all of them in one line, in which every change of any shows. It must not run a kernel, and must not be asked on a
platform that the class is not written for.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness.adapters.attention_classes import decide_attention_modules
from harness.adapters.attention_requests import class_name, member_of, run_around
from harness.adapters.decision import Decision, Missing, find, raised, unsupported
from harness.adapters.watch import accepted_arguments
from harness.model.cell import Cell
from harness.model.record import Candidate, Category, Ended, Evidence, Finding

_TABLES: Mapping[str, tuple[int | str, ...]] = {
    "supports_head_size": (32, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 512, 576),
    "supports_dtype": ("float16", "bfloat16", "float32"),
    "supports_block_size": (1, 8, 16, 32, 64, 128, 256, 544),
    "supports_attn_type": ("decoder", "encoder", "encoder_only", "encoder_decoder"),
}
"""Predicates of one argument, and what they are asked; 544 is the block of hybrid models (Qwen3-Next)."""

_SHOWN = (
    "get_name",
    "get_impl_cls",
    "get_builder_cls",
    "get_supported_kernel_block_sizes",
    "get_preferred_block_size",
    "supported_kv_cache_layouts",
    "get_required_kv_cache_layout",  # vllm<0.30
    "get_kv_cache_shape",  # vllm<0.30
    "get_kv_cache_stride_order",  # vllm<0.30
)
"""Facts of a class that are no yes or no."""

_PROBE: Mapping[str, Any] = {
    "num_blocks": 7,
    "block_size": 16,
    "num_kv_heads": 8,
    "head_size": 128,
    "default_block_size": 16,
}
"""The cache that the facts are asked about, in blocks, tokens, heads and elements; sizes differ, so that axes show."""

_NO = ("False", "")
"""What a predicate answers that accepts nothing."""

_FRAMES = ("vllm.v1.attention.backend", "vllm.v1.attention.backends.utils", "vllm.attention.backends.abstract")
"""Modules of the bases and tools of all backends, which name every feature."""

_CLAIMS: Mapping[str, str] = {"supports_mm_prefix": "mm_prefix", "supports_sink": "sink"}
"""Predicate -> word that the code of a backend with the feature cannot do without."""


def decide_attention_backend(cell: Cell) -> Decision:
    """Ask one backend class about itself, or the classes and functions of some modules."""
    if "modules" in cell.kernel.scheme:
        return decide_attention_modules(cell)
    name = str(cell.kernel.scheme.get("backend", cell.kernel.name))
    try:
        member = member_of(name)
    except Missing as missing:
        return unsupported(str(missing))
    try:
        backend = member.get_class()
    except ValueError as error:  # a tag, or the place of a user's own backend: no class stands behind it
        return Decision(Ended.UNSUPPORTED, detail=str(error))
    except ImportError as error:
        return _unimportable(class_name(member), error)
    scheme = cell.kernel.scheme
    try:
        with run_around(cell):
            return _one(backend, str(scheme["ask"])) if "ask" in scheme else _profile(backend, scheme.get("without"))
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)


def _unimportable(name: str, error: ImportError) -> Decision:
    """What is not here, or what vLLM says in its own words, is a missing capability; a broken module is a fault."""
    if isinstance(error, ModuleNotFoundError):
        return Decision(Ended.UNSUPPORTED, detail=f"{name} needs {error.name}, which is not here")
    if error.name is None:  # no failure of an import statement, but an error with words of its own
        return Decision(Ended.UNSUPPORTED, detail=str(error))
    return raised(error)


def _one(backend: type, ask: str) -> Decision:
    if not hasattr(backend, ask):
        return unsupported(f"{ask} of attention backends")
    answer = _answer(backend, ask)
    symbol = getattr(getattr(backend, ask), "__qualname__", ask)
    asked = Evidence(question=f"{backend.__name__}.{ask}", answer=answer)
    return Decision(Ended.ANSWERED, answer, symbol, evidence=(asked,), findings=tuple(_unfounded(backend, (ask,))))


def _profile(backend: type, without: object) -> Decision:
    """Every question but the one that only a device or AITER itself can answer."""
    answers = {name: _answer(backend, name) for name in _questions(backend) if name != without}
    said = "; ".join(_said(name, answer) for name, answer in answers.items() if answer not in _NO)
    return Decision(
        Ended.ANSWERED,
        f"{backend.__name__}: {said}",
        backend.__name__,
        candidates=tuple(_candidate(name, answer) for name, answer in answers.items() if name not in _SHOWN),
        evidence=tuple(Evidence(question=name, answer=answers[name]) for name in _SHOWN if name in answers),
        findings=tuple(_unfounded(backend, _CLAIMS)),
    )


def _said(name: str, answer: str) -> str:
    """``mm_prefix``, or ``head_size=64, 128``."""
    short = name.removeprefix("supports_").removeprefix("get_")
    return short if answer == "True" else f"{short}={answer}"


def _candidate(question: str, answer: str) -> Candidate:
    """One question and whether the class says yes; of a table, the values that it accepts."""
    if answer in _NO:
        return Candidate(name=question, accepted=False, reason="False", category=Category.OTHER)
    return Candidate(name=question, accepted=True, reason="" if answer == "True" else answer)


def _questions(backend: type) -> Iterator[str]:
    """Every predicate that the class or its bases have, and the facts, in a fixed order."""
    names = [name for name in dir(backend) if name.startswith(("supports_", "is_"))]
    yield from sorted(name for name in names if _askable(backend, name))
    yield from (name for name in _SHOWN if hasattr(backend, name))


def _askable(backend: type, name: str) -> bool:
    """Whether the predicate can be answered without a configuration."""
    predicate = getattr(backend, name)
    if not callable(predicate):
        return isinstance(predicate, bool)
    needed = [item for item in inspect.signature(predicate).parameters.values() if item.default is item.empty]
    return not needed or name in (*_TABLES, "supports_kv_cache_dtype", "supports_compute_capability")


def _answer(backend: type, name: str) -> str:
    """The answer in words: ``True``, ``False``, or the accepted values of a table."""
    predicate = getattr(backend, name)
    if not callable(predicate):
        return str(predicate)
    if name == "supports_compute_capability":
        return _capability(predicate)
    if name in _TABLES or name == "supports_kv_cache_dtype":
        return ", ".join(str(value) for value, given in _values(name) if predicate(given))
    try:
        stored = getattr(backend, "supported_kv_cache_dtypes", None) or ["auto"]
        return _text(predicate(**accepted_arguments(predicate, {**_PROBE, "cache_dtype_str": stored[0]})))
    except (NotImplementedError, AssertionError) as error:  # part of one model's own attention, with its own sizes
        return f"none: {error}"


def _values(name: str) -> Iterator[tuple[int | str, Any]]:
    """The values of a table, as written and as the predicate takes them."""
    import torch

    if name == "supports_kv_cache_dtype":
        dtypes = typing.get_args(find("vllm.config.cache", "CacheDType"))
        yield from ((value, value) for value in dtypes)
        return
    for value in _TABLES[name]:
        yield value, getattr(torch, str(value)) if name == "supports_dtype" else value


def _capability(predicate: Any) -> str:
    from vllm.platforms import current_platform

    capability = current_platform.get_device_capability()
    return "no capability here" if capability is None else str(bool(predicate(capability)))


def _text(value: object) -> str:
    """A value without addresses: a class by its name, a member by its own, a multiple by what it is one of."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if hasattr(value, "base") and type(value).__name__ == "MultipleOf":  # vllm<0.28: no text of its own
        return f"MultipleOf({value.base})"
    return str(getattr(value, "__name__", None) or getattr(value, "name", None) or value)


# ---- claims that no code stands behind


def _unfounded(backend: Any, asked: Collection[str]) -> Iterator[Finding]:
    """A feature that the class says it has while neither it, its implementation nor its metadata ever names it."""
    for predicate, word in _CLAIMS.items():
        claims = predicate in asked and hasattr(backend, predicate) and _answer(backend, predicate) == "True"
        code = _code(backend, predicate) if claims else None
        if code is None or word in code:
            continue
        yield Finding(
            rule="claim_without_code",
            symbol=getattr(backend, predicate).__qualname__,
            message=f"{backend.__name__}.{predicate} is True, and no code of its implementation ever names {word!r}",
        )


def _code(backend: Any, predicate: str) -> str | None:
    """The source of the modules that the backend is made of, without the names of the predicate's definitions.

    None where the backend is part of one model's own attention, whose code is not known from here.
    """
    try:
        owners = (backend, backend.get_impl_cls(), backend.get_builder_cls())
    except NotImplementedError:
        return None
    names = dict.fromkeys(base.__module__ for owner in owners for base in owner.__mro__)
    modules = [sys.modules[name] for name in names if name.startswith("vllm.") and name not in _FRAMES]
    return "\n".join(map(inspect.getsource, modules)).replace(f"def {predicate}", "")
