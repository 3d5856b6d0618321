"""Attention layers: which backend vLLM picks for a layer, and why not the others.

In: a cell of surface ``attention`` (``attention_requests`` says what it may ask). Out: what vLLM returned (the class of
a backend; for a vision encoder the member of vLLM's registry), vLLM's own ordered candidates, and its words for each
one refused, read from its own variables when a selector returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType
from typing import Any

from harness.adapters.attention_requests import PREFILL, class_name, first_of, question, run_around, selected
from harness.adapters.categories import categorise
from harness.adapters.decision import Decision, Missing, find, raised, unsupported
from harness.adapters.gates import gate_codes, gate_evidence
from harness.adapters.watch import Returned, Watch, code_of
from harness.model.cell import Cell
from harness.model.record import Candidate, Ended

_WALK, _VALIDATE, _SELECT = "get_valid_backends", "validate_configuration", "select"

_REFUSALS = (ValueError, NotImplementedError, RuntimeError, AssertionError)
"""What vLLM's selectors raise with a sentence of their own: an assertion for a choice that a vision encoder lacks."""

_NESTED = ("get_path", "__getitem__")
"""Methods of vLLM's registry that refuse a name on behalf of a selector."""


def decide_attention(cell: Cell) -> Decision:
    """Put one question about attention to vLLM."""
    try:
        entry, arguments = question(cell)
    except Missing as missing:
        return unsupported(str(missing))
    with Watch({**_codes(entry), **gate_codes()}) as watch, run_around(cell):
        try:
            answer = entry(**arguments)
        except _REFUSALS as error:
            return _refused(error, cell, entry, watch.returns)
        except Exception as error:  # the subject's own fault, whatever its type, is the observation
            return raised(error, _candidates(watch.returns, None))
    chosen = _name(answer)
    gates = (item for item in watch.returns if item.name not in (_WALK, _VALIDATE, _SELECT))
    return Decision(
        Ended.ANSWERED,
        chosen,
        entry.__qualname__,
        candidates=_candidates(watch.returns, chosen),
        evidence=tuple(dict.fromkeys(map(gate_evidence, gates))),
    )


def _name(answer: object) -> str:
    """What vLLM returned: the path of a class, a class, a member of the registry, or a truth."""
    if isinstance(answer, str):
        return answer.rpartition(".")[2]
    return str(getattr(answer, "name", None) or getattr(answer, "__name__", None) or answer)


def _refused(error: BaseException, cell: Cell, entry: Callable[..., Any], returns: list[Returned]) -> Decision:
    """An error with words of its own, raised by the selector itself, is a refusal; one from anywhere deeper is not."""
    words = str(error).strip()
    candidates = _candidates(returns, None)
    where = raised(error, candidates)
    if not words or where.symbol.rpartition(".")[2] not in (entry.__name__, *_NESTED):
        return where
    chosen = selected(cell)
    if chosen is not None and not candidates:
        candidates = (_candidate(class_name(chosen), [words], None),)
    return replace(where, ended=Ended.REFUSED, symbol=entry.__qualname__, detail=words, candidates=candidates)


# ---- what vLLM asked on the way


def _codes(entry: Callable[..., Any]) -> Mapping[CodeType, str]:
    """The selector, the platform's walk over its backends, and each backend's own answer to a configuration."""
    from vllm.platforms import current_platform

    functions: list[tuple[Any, str]] = [(entry, _SELECT), (getattr(type(current_platform), _WALK, None), _WALK)]
    owners = (
        first_of(("vllm.v1.attention.backend", "vllm.attention.backends.abstract"), "AttentionBackend"),
        find(f"{PREFILL}.base", "MLAPrefillBackend"),
    )
    functions += [(getattr(owner, _VALIDATE, None), _VALIDATE) for owner in owners]
    codes = ((code_of(function), name) for function, name in functions if function is not None)
    return {code: name for code, name in codes if code is not None}


def _candidates(returns: list[Returned], chosen: str | None) -> tuple[Candidate, ...]:
    """The backends in vLLM's order: refused with its words, taken, or good as well but of a lower priority."""
    walks = [item for item in returns if item.name == _WALK and item.value is not None]
    if walks:
        return _walked(walks[-1], chosen)
    reasons = {
        item.variables["cls"].__name__: list(item.value)
        for item in returns
        if item.name == _VALIDATE and item.value is not None
    }
    for item in returns:  # a backend that cannot be imported answers nothing itself
        if item.name == _SELECT:
            reasons = {**_named(item.variables.get("all_invalid_reasons", {})), **reasons}
    if chosen is not None:
        reasons.setdefault(chosen, [])
    return tuple(_candidate(name, said, chosen) for name, said in reasons.items())


def _named(refused: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The refusals of MLA prefill backends, by class."""
    members = getattr(find(f"{PREFILL}.registry", "MLAPrefillBackendEnum"), "__members__", {})
    return {class_name(members[name]): said for name, said in refused.items() if name in members}


def _walked(walk: Returned, chosen: str | None) -> tuple[Candidate, ...]:
    valid, refused = walk.value
    members = list(walk.variables.get("backend_priorities") or ())
    members += [*refused, *(item.backend if hasattr(item, "backend") else item[0] for item in valid)]
    found = []
    for member in dict.fromkeys(members):
        said = refused.get(member, [])
        said = said[1] if isinstance(said, tuple) else said  # CUDA gives the priority as well
        found.append(_candidate(class_name(member), said, chosen))
    return tuple(found)


def _candidate(name: str, reasons: list[str], chosen: str | None) -> Candidate:
    if not reasons:
        return Candidate(name=name, accepted=True if name == chosen else None)
    words = "; ".join(reasons)
    return Candidate(name=name, accepted=False, reason=words, category=categorise(words))
