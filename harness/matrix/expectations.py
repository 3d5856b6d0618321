"""What matrix.yaml expects of its cells. In: entries and cells. Out: for a cell, what is allowed, what never, and why.

Must not: judge an answer; that is ``probes``. Several expectations may speak of one cell as long as they agree.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.matrix.expand import Named, Resolver
from harness.matrix.schema import ExceptionEntry, ExpectationEntry, KnownFailureEntry, MatrixFile
from harness.matrix.source import Loc, Source
from harness.matrix.words import Selector
from harness.model.cell import Cell, Surface
from harness.model.errors import nearest

REFUSED = "none"
"""Stands for a refusal by vLLM among the answers of surface ``linear``."""

_AITER: Mapping[str | None, bool | None] = {None: None, "present": True, "absent": False}
_YES_NO = frozenset({"True", "False"})
ANSWERS: Mapping[Surface, frozenset[str]] = {
    Surface.AITER_GATE: _YES_NO,
    Surface.TUNED_GATE: _YES_NO,
    Surface.ALLOWLIST: frozenset({"accepted", "refused"}),
    Surface.GUARD: frozenset({"completed", "launched"}),
}
"""The answers of the surfaces that have a closed set of them."""


@dataclass(frozen=True)
class Expected:
    """What the matrix expects of one cell."""

    allowed: frozenset[str] | None
    """None: any answer; ``none`` in it stands for a refusal."""
    never: frozenset[str]
    because: str
    where: str
    """file:line:column of each expectation that speaks of the cell."""


@dataclass(frozen=True)
class KnownFailure:
    """Why a cell is known to fail."""

    issue: str
    owner: str
    expires: datetime.date
    reason: str
    where: str


@dataclass(frozen=True)
class Excepted:
    """Why a cell may break an invariant."""

    rule: str
    """``I1`` ... ``I16``."""
    issue: str
    owner: str
    expires: datetime.date
    reason: str
    where: str


@dataclass(frozen=True)
class Rule:
    """One entry with its condition looked up. Exactly one of ``expected``, ``known`` and ``excepted`` is set."""

    selector: Selector
    loc: Loc
    expected: Expected | None = None
    aiter: bool | None = None
    """Only with (True) or without (False) AITER."""
    known: KnownFailure | None = None
    excepted: Excepted | None = None


@dataclass(frozen=True)
class Book:
    """Rules, indexed so that asking for one cell looks at the few that can matter."""

    rules: tuple[Rule, ...]
    groups: Mapping[tuple[Surface, str, str], tuple[Rule, ...]]

    @classmethod
    def of(cls, rules: Iterable[Rule], cells: Iterable[Cell]) -> Book:
        """Index the rules by the surfaces, targets and environments of the cells."""
        every = tuple(rules)
        groups = {(cell.kernel.surface, cell.target.name, cell.environment) for cell in cells}
        return cls(every, {group: tuple(rule for rule in every if rule.selector.in_group(*group)) for group in groups})

    def about(self, cell: Cell) -> tuple[Rule, ...]:
        """The rules that speak of a cell, which need not be one of the matrix."""
        near = self.groups.get((cell.kernel.surface, cell.target.name, cell.environment), self.rules)
        return tuple(rule for rule in near if rule.selector.matches(cell))


def merge(rules: Iterable[Rule], *, has_aiter: bool) -> Expected | None:
    """What the rules expect together; None where none of them applies."""
    parts = [rule.expected for rule in rules if rule.expected is not None and rule.aiter in (None, has_aiter)]
    if not parts:
        return None
    stated = [part.allowed for part in parts if part.allowed is not None]
    return Expected(
        allowed=frozenset.intersection(*stated) if stated else None,
        never=frozenset().union(*(part.never for part in parts)),
        because="; ".join(dict.fromkeys(part.because for part in parts)),
        where=", ".join(part.where for part in parts),
    )


def expectation_rules(resolver: Resolver, file: MatrixFile, named: Named, source: Source) -> tuple[Rule, ...]:
    """The file's expectations; an answer that the surface never gives is a problem."""
    rules = []
    for index, entry in enumerate(file.expectations):
        loc: Loc = ("expectations", index)
        if not entry.chosen and not entry.never:
            resolver.problem(loc, "the expectation expects nothing", expected="'chosen' or 'never'")
        _check_answers(resolver, entry, loc)
        because = f"{entry.because} ({entry.source})"
        allowed = frozenset(entry.chosen) if entry.chosen else None
        expected = Expected(allowed, frozenset(entry.never), because, source.where(loc))
        rules.append(
            Rule(resolver.selector(entry, named.words, loc), loc, expected=expected, aiter=_AITER[entry.aiter])
        )
    return tuple(rules)


def _check_answers(resolver: Resolver, entry: ExpectationEntry, loc: Loc) -> None:
    known = ANSWERS.get(entry.surface) if entry.surface else None
    if entry.surface is None:
        resolver.problem(loc, "the key 'surface' is missing", hint="An answer has a meaning on one surface only.")
    for key in ("chosen", "never"):
        for position, answer in enumerate(getattr(entry, key)):
            if known is not None and answer not in known:
                what = f"not an answer of surface {entry.surface}"
                resolver.problem((*loc, key, position), what, got=answer, hint=nearest(answer, known))


def known_rules(
    resolver: Resolver, file: MatrixFile, named: Named, source: Source, today: datetime.date
) -> tuple[Rule, ...]:
    """The file's known failures; an expired one is a problem."""
    rules = []
    for index, entry in enumerate(file.known_failures):
        loc: Loc = ("known_failures", index)
        _check_end(resolver, entry, loc, "known failure", today)
        known = KnownFailure(entry.issue, entry.owner, entry.expires, entry.reason, source.where(loc))
        rules.append(Rule(resolver.selector(entry, named.words, loc), loc, known=known))
    return tuple(rules)


def exception_rules(
    resolver: Resolver, file: MatrixFile, named: Named, source: Source, today: datetime.date
) -> tuple[Rule, ...]:
    """The file's exceptions from invariants; an expired one is a problem."""
    rules = []
    for index, entry in enumerate(file.exceptions):
        loc: Loc = ("exceptions", index)
        _check_end(resolver, entry, loc, "exception", today)
        excepted = Excepted(entry.rule, entry.issue, entry.owner, entry.expires, entry.reason, source.where(loc))
        rules.append(Rule(resolver.selector(entry, named.words, loc), loc, excepted=excepted))
    return tuple(rules)


def _check_end(
    resolver: Resolver, entry: KnownFailureEntry | ExceptionEntry, loc: Loc, kind: str, today: datetime.date
) -> None:
    if entry.expires < today:
        hint = f"Ask {entry.owner} about {entry.issue}."
        expected = f"{today} or later"
        resolver.problem(
            (*loc, "expires"), f"the {kind} has expired", got=str(entry.expires), expected=expected, hint=hint
        )


def check_rules(resolver: Resolver, book: Book, cells: Iterable[Cell]) -> None:
    """Note each rule that speaks of no cell, and expectations that cannot both hold."""
    seen: dict[tuple[Rule, ...], Cell] = {}
    for cell in cells:
        seen.setdefault(book.about(cell), cell)
    used = {rule.loc for rules in seen for rule in rules}
    for rule in book.rules:
        if rule.loc not in used:
            kind = "expectation" if rule.expected else "known failure" if rule.known else "exception"
            resolver.problem(rule.loc, f"the {kind} speaks of no cell", hint="Correct it or take it out.")
    for rules, cell in seen.items():
        for has_aiter in (True, False):
            expected = merge(rules, has_aiter=has_aiter)
            if expected is None or expected.allowed is None or expected.allowed - expected.never:
                continue
            what = f"the expectations contradict each other on cell {cell.id}"
            resolver.problem(rules[-1].loc, what, hint=f"They are at {expected.where}.")
