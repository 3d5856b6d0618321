"""Faults and undecided cells, grouped so that one cause is one entry.

In: records. Out: groups by (rule, symbol), or by outcome where no rule was broken. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.model.record import Outcome, Record
from harness.report.where import Universe, label_of, targets_listed, where

T = TypeVar("T")

MESSAGES = 3
"""How many wordings of one fault are shown; the others are counted."""


@dataclass(frozen=True)
class Fault:
    """Cells that break one rule at one symbol, or that ended badly without one."""

    rule: str
    """The rule, or the outcome where no rule was broken."""
    symbol: str
    """The vLLM symbol at fault, or the kernel that the cells ask for."""
    cells: int
    outcomes: tuple[tuple[Outcome, int], ...]
    targets: str
    where: str
    messages: tuple[tuple[str, int], ...]
    """Wordings with the number of cells, the commonest first, at most ``MESSAGES``."""
    more_messages: int
    words: str
    """What vLLM said or gave in the first of the cells: the record's reason."""
    chosen: tuple[str, ...]
    example: str
    """Id of the first of the cells."""
    reproduce: str


@dataclass(frozen=True)
class Undecided:
    """Cells without a verdict of their own, for one reason."""

    outcome: Outcome
    reason: str
    cells: int
    targets: str
    where: str


def failures(records: Sequence[Record]) -> tuple[Fault, ...]:
    """Faults of the records that make a run fail, the most widespread first."""
    return _faults([record for record in records if record.outcome.is_bad], Universe.of(records))


def known(records: Sequence[Record]) -> tuple[Fault, ...]:
    """Faults that the matrix lists as known, and findings that do not make their record fail."""
    quiet = [r for r in records if not r.outcome.is_bad and (r.findings or r.outcome is Outcome.EXPECTED_FAILURE)]
    return _faults(quiet, Universe.of(records))


def undecided(records: Sequence[Record]) -> tuple[Undecided, ...]:
    """Unsupported, indeterminate, not run and infra, each with its reasons."""
    kinds = (Outcome.INDETERMINATE, Outcome.INFRA, Outcome.NOT_RUN, Outcome.UNSUPPORTED)
    groups: dict[tuple[Outcome, str], list[Record]] = {}
    for record in records:
        if record.outcome in kinds:
            groups.setdefault((record.outcome, record.reason), []).append(record)
    universe = Universe.of(records)
    found = [
        Undecided(outcome, reason, len(members), targets_listed(members, universe), where(members, universe))
        for (outcome, reason), members in groups.items()
    ]
    return tuple(sorted(found, key=lambda group: (kinds.index(group.outcome), -group.cells, group.reason)))


def _faults(members: Sequence[Record], within: Universe) -> tuple[Fault, ...]:
    groups: dict[tuple[str, str], list[tuple[Record, str]]] = {}
    for record in members:
        if not record.findings:
            groups.setdefault((record.outcome.value, record.kernel), []).append((record, record.reason))
        for finding in record.findings:
            groups.setdefault((finding.rule, finding.symbol), []).append((record, finding.message))
    found = [_fault(rule, symbol, group, within) for (rule, symbol), group in groups.items()]
    return tuple(sorted(found, key=lambda fault: (-fault.cells, fault.rule, fault.symbol)))


def _fault(rule: str, symbol: str, group: Sequence[tuple[Record, str]], within: Universe) -> Fault:
    records = list({record.id: record for record, _ in group}.values())
    messages = _tally(group, lambda pair: pair[1])
    first = min(records, key=lambda record: record.id)
    return Fault(
        rule=rule,
        symbol=symbol,
        cells=len(records),
        outcomes=tuple(sorted(Counter(record.outcome for record in records).items())),
        targets=targets_listed(records, within),
        where=where(records, within),
        messages=messages[:MESSAGES],
        more_messages=max(0, len(messages) - MESSAGES),
        words=first.reason,
        chosen=tuple(label for label, _ in _tally(records, label_of)),
        example=first.id,
        reproduce=first.reproduce,
    )


def _tally(items: Sequence[T], key: Callable[[T], str]) -> tuple[tuple[str, int], ...]:
    """Values with their counts, the commonest first."""
    return tuple(sorted(Counter(map(key, items)).items(), key=lambda item: (-item[1], item[0])))
