"""Faults, grouped so that one cause is one entry.

In: records. Out: groups by (rule, symbol, surface), or by outcome where no rule was broken. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.cell import Surface
from harness.model.record import Outcome, Record
from harness.report.causes import Wording, fewer_names, wordings
from harness.report.where import Population, label_of

MESSAGES = 3
"""How many causes of one fault are shown; the others are counted."""


@dataclass(frozen=True)
class Fault:
    """Cells that break one rule at one symbol, or that ended badly without one."""

    rule: str
    """The rule, or the outcome where no rule was broken."""
    symbol: str
    """The vLLM symbol at fault, or the kernel that the cells ask for."""
    surface: Surface
    cells: int
    outcomes: tuple[tuple[Outcome, int], ...]
    targets: str
    where: str
    messages: tuple[Wording, ...]
    """The commonest first, at most ``MESSAGES``."""
    more_messages: int
    words: str
    """What vLLM said or gave in the first of the cells: the record's reason; empty where the messages tell it."""
    chosen: tuple[str, ...]
    example: str
    """Id of the first of the cells."""
    reproduce: str


def failures(records: Sequence[Record]) -> tuple[Fault, ...]:
    """Faults of the records that make a run fail, the most widespread first."""
    return _faults([record for record in records if record.outcome.is_bad], Population.of(records))


def known(records: Sequence[Record]) -> tuple[Fault, ...]:
    """Faults that the matrix lists as known, and findings that do not make their record fail."""
    quiet = [r for r in records if not r.outcome.is_bad and (r.findings or r.outcome is Outcome.EXPECTED_FAILURE)]
    return _faults(quiet, Population.of(records))


def _faults(members: Sequence[Record], population: Population) -> tuple[Fault, ...]:
    groups: dict[tuple[str, str, Surface], list[tuple[Record, str]]] = {}
    for record in members:
        if not record.findings:
            key = (record.outcome.value, record.kernel, record.surface)
            groups.setdefault(key, []).append((record, record.reason))
        for finding in record.findings:
            key = (finding.rule, finding.symbol, record.surface)
            groups.setdefault(key, []).append((record, finding.message))
    found = [_fault(key, group, population) for key, group in groups.items()]
    return tuple(sorted(found, key=lambda fault: (-fault.cells, fault.rule, fault.symbol, fault.surface)))


def _fault(key: tuple[str, str, Surface], group: Sequence[tuple[Record, str]], population: Population) -> Fault:
    records = list({record.id: record for record, _ in group}.values())
    texts = [message for _, message in group]
    messages = wordings(map(fewer_names, texts))
    first = min(records, key=lambda record: record.id)
    targets, place = population.placed(records)
    labels = Counter(map(label_of, records))
    return Fault(
        *key,
        cells=len(records),
        outcomes=tuple(sorted(Counter(record.outcome for record in records).items())),
        targets=targets,
        where=place,
        messages=messages[:MESSAGES],
        more_messages=max(0, len(messages) - MESSAGES),
        words="" if first.reason in texts else fewer_names(first.reason),
        chosen=tuple(sorted(labels, key=lambda label: (-labels[label], label))),
        example=first.id,
        reproduce=first.reproduce,
    )
