"""Causes: sentences that differ only in numbers, target names or code names are one cause, told by one example.

In: reasons and messages of records. Out: keys to group them by, groups, and what a reader can do. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from harness.model.record import Outcome
from harness.model.target import Platform

_WORD = re.compile(r"\w(?:[\w./:=-]*\w)?")
_CODE = re.compile(r"[\d_]|\w\.\w|[a-z][A-Z]")
_FIGURE = re.compile(r"\b(?:gfx|sm)\d\w*(?:/\w+)?|\d+")
_ANY = "…"
_MANY = re.compile(f"{_ANY}(?:(?:, | or ){_ANY})+")
_NAMES = re.compile(r"(\w+)((?: or \w+){3,})")
_SENTENCE_END = re.compile(r"(?<=[^.\s]\.)\s+(?=[A-Z])")
_ADVICE = re.compile(r"\s*\((pass [^()]+)\)")
_PLATFORMS = frozenset(platform.value for platform in Platform)

_TO_DO = {
    Outcome.UNSUPPORTED: "nothing, unless the subject should have what the reason names",
    Outcome.INDETERMINATE: "ask an attached target, a simulation cannot know",
    Outcome.INFRA: "run it where the cell finds what it needs",
    Outcome.NOT_RUN: "take away what kept it from running and run it again",
}


@dataclass(frozen=True)
class Wording:
    """Texts of one cause."""

    example: str
    """The commonest of them."""
    cells: int
    texts: int
    """How many different texts there are."""


def figures(text: str) -> str:
    """Key of a text in which numbers and target names do not count, but every other name does."""
    return _FIGURE.sub(_ANY, text)


def cause(text: str) -> str:
    """Key of a text in which code names (``is_tuned``, ``N=1536``, ``a.csv``) and platforms do not count either."""
    return _MANY.sub(_ANY, _WORD.sub(lambda word: _ANY if _is_name(word[0]) else word[0], text))


def _is_name(word: str) -> bool:
    return word in _PLATFORMS or _CODE.search(word) is not None


def wordings(texts: Iterable[str]) -> tuple[Wording, ...]:
    """Texts grouped by cause, the commonest cause first."""
    groups: dict[str, Counter[str]] = {}
    for text, count in Counter(texts).items():
        groups.setdefault(cause(text), Counter())[text] += count
    found = [
        Wording(min(counts, key=lambda text: (-counts[text], text)), counts.total(), len(counts))
        for counts in groups.values()
    ]
    return tuple(sorted(found, key=lambda wording: (-wording.cells, wording.example)))


def parted(reason: str) -> tuple[str, str]:
    """A reason as its first sentence, which is the cause, and the rest, which says what follows from it."""
    first, *rest = _SENTENCE_END.split(reason, maxsplit=1)
    return first, rest[0] if rest else ""


def to_do(reason: str, outcome: Outcome) -> str:
    """What a reader can do about an undecided cell: the advice in its reason, else what its outcome asks for."""
    advice = dict.fromkeys(_ADVICE.findall(reason))
    return "; ".join(advice) or _TO_DO.get(outcome, "see the reason")


def without_advice(reason: str) -> str:
    """A reason without the advice that ``to_do`` finds in it."""
    return _ADVICE.sub("", reason)


def fewer_names(text: str) -> str:
    """``A or B or C or D`` as ``A or 3 more``: an expectation may forbid a dozen kernels."""
    return _NAMES.sub(lambda found: f"{found[1]} or {found[2].count(' or ')} more", text)
