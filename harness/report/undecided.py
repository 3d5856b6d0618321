"""Cells without a verdict of their own, grouped by cause, each with what a reader can do about it.

In: records. Out: groups. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.record import Outcome, Record
from harness.report.causes import cause, parted, to_do, without_advice
from harness.report.where import Population

KINDS = (Outcome.INFRA, Outcome.NOT_RUN, Outcome.INDETERMINATE, Outcome.UNSUPPORTED)
"""The outcomes told here: first those that a reader can do something about."""


@dataclass(frozen=True)
class Undecided:
    """Cells of one outcome and one cause."""

    outcome: Outcome
    cells: int
    families: tuple[tuple[str, int], ...]
    """Kernel families with their cells, the commonest first."""
    targets: str
    where: str
    example: str
    """The cause as the commonest of the reasons tells it, without the advice."""
    reasons: int
    """How many different reasons have this cause."""
    to_do: str
    consequences: tuple[tuple[str, int], ...]
    """What the reasons say after their first sentence, with the cells of each."""


def undecided(records: Sequence[Record]) -> tuple[Undecided, ...]:
    """Infra, not run, indeterminate and unsupported, in this order, the most widespread causes first."""
    groups: dict[tuple[Outcome, str], list[Record]] = {}
    for record in records:
        if record.outcome in KINDS:
            groups.setdefault((record.outcome, cause(parted(record.reason)[0])), []).append(record)
    population = Population.of(records)
    found = [_undecided(outcome, members, population) for (outcome, _), members in groups.items()]
    return tuple(sorted(found, key=lambda group: (KINDS.index(group.outcome), -group.cells, group.example)))


def _undecided(outcome: Outcome, members: Sequence[Record], population: Population) -> Undecided:
    targets, place = population.placed(members)
    example = _tally([parted(record.reason)[0] for record in members])[0][0]
    rest = [words for record in members if (words := parted(record.reason)[1])]
    return Undecided(
        outcome=outcome,
        cells=len(members),
        families=_tally([record.family for record in members]),
        targets=targets,
        where=place,
        example=without_advice(example),
        reasons=len({record.reason for record in members}),
        to_do=to_do(example, outcome),
        consequences=_tally(rest),
    )


def _tally(texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Texts with their counts, the commonest first."""
    return tuple(sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0])))
