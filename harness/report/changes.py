"""The rows of a comparison, collapsed: cells that changed in the same way are one entry.

In: a ``Comparison``. Out: a ``ComparisonSummary`` that both the terminal and the Markdown page render. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.compare.explain import changes, is_rerouted, passed_over, route, state
from harness.compare.gate import Gate, judge_compare
from harness.model.record import Record
from harness.model.run import Comparison, Row, Verdict
from harness.report.summary import verdict_word
from harness.report.text import natural, one_line
from harness.report.where import Universe, label_of, targets_listed, where

CHANGED = (Verdict.REGRESSED, Verdict.REROUTED, Verdict.FIXED)
"""Verdicts told in full, in this order."""
_SETTLED = (Verdict.UNCHANGED, Verdict.KNOWN)
REASONS = 4
"""How many wordings of one side are shown; the others are counted."""


@dataclass(frozen=True)
class Side:
    """What one of the two runs did with the cells of an entry."""

    label: str
    """The chosen kernel, or why there is none."""
    outcome: str
    reasons: tuple[str, ...]
    """``candidate: what became of it`` with vLLM's words, or the record's own reason; at most ``REASONS``."""
    more_reasons: int


@dataclass(frozen=True)
class Change:
    """Cells of one kernel family that changed in one way."""

    verdict: Verdict
    rerouted: bool
    """True where the decision differs: a fixed or regressed cell may be rerouted too."""
    family: str
    """Kernel families of the cells."""
    cells: int
    targets: str
    where: str
    before: Side | None
    after: Side | None
    why: str
    """Of the first of the cells."""
    reproduce: str
    example: str


@dataclass(frozen=True)
class ComparisonSummary:
    """Everything that a page about one comparison says."""

    baseline: str
    candidate: str
    verdicts: Mapping[Verdict, int]
    gate: Gate
    differs: tuple[str, ...]
    told: tuple[Change, ...]
    """Regressed, rerouted, fixed, and known failures that fail in another way now."""
    counted: tuple[Change, ...]
    """Added, removed, not comparable and unchanged failures: where they are, without both sides."""

    @property
    def verdict_line(self) -> str:
        """``gfxloop: PASSED: 0 regressed, 24 rerouted, ... (A against B)``."""
        shown = {Verdict.REGRESSED: 0} | dict(self.verdicts)
        counts = ", ".join(f"{count} {verdict.value.replace('_', ' ')}" for verdict, count in shown.items())
        return f"gfxloop: {verdict_word(self.gate)}: {counts} on {self.candidate} against {self.baseline}"


def summarise_comparison(comparison: Comparison) -> ComparisonSummary:
    """Aggregate a comparison."""
    counts = Counter(row.verdict for row in comparison.rows)
    told = [row for row in comparison.rows if row.verdict in CHANGED or _fails_otherwise(row)]
    ids = {row.id for row in told}
    rest = [row for row in comparison.rows if row.verdict is not Verdict.UNCHANGED and row.id not in ids]
    return ComparisonSummary(
        baseline=one_line(comparison.baseline.subject.spec),
        candidate=one_line(comparison.candidate.subject.spec),
        verdicts={verdict: counts[verdict] for verdict in Verdict if counts[verdict]},
        gate=judge_compare(comparison),
        differs=comparison.differs,
        told=_grouped(told, comparison.rows),
        counted=_grouped(rest, comparison.rows),
    )


def _fails_otherwise(row: Row) -> bool:
    """A known failure whose route, outcome or broken rules changed: a second fault may hide behind the first."""
    return row.verdict is Verdict.KNOWN and bool(row.before and row.after and changes(row.before, row.after))


def _grouped(rows: Sequence[Row], within: Sequence[Row]) -> tuple[Change, ...]:
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        record = _present(row)
        told = row.verdict in CHANGED or _fails_otherwise(row)
        detail = (_look(row.before), _look(row.after)) if told else _class_of(row)
        groups.setdefault((row.verdict, record.surface, record.family if told else "", detail), []).append(row)
    whole = Universe.of([_present(row) for row in within])
    found = [_change(members, whole) for members in groups.values()]
    order = [*CHANGED, *(verdict for verdict in Verdict if verdict not in CHANGED)]
    return tuple(
        sorted(found, key=lambda change: (order.index(change.verdict), -change.cells, natural(change.example)))
    )


def _class_of(row: Row) -> object:
    """What tells apart rows that are only counted: the reason for rows that could not be compared, else nothing."""
    return row.why if row.verdict is Verdict.NOT_COMPARABLE else None


def _look(record: Record | None) -> object:
    """What tells apart two entries on one side: the kernel and the outcome."""
    return None if record is None else (label_of(record), record.outcome)


def _present(row: Row) -> Record:
    """The record of the candidate, or of the baseline where it was removed."""
    record = row.after or row.before
    if record is None:
        raise ValueError(f"{row.id}: a row without a record")
    return record


def _change(rows: Sequence[Row], within: Universe) -> Change:
    records = [_present(row) for row in rows]
    first = rows[0]
    return Change(
        verdict=first.verdict,
        rerouted=any(map(is_rerouted, rows)),
        family=", ".join(sorted({record.family for record in records})),
        cells=len(rows),
        targets=targets_listed(records, within),
        where=where(records, within),
        before=_side([(row.before, row.after) for row in rows if row.before is not None]),
        after=_side([(row.after, row.before) for row in rows if row.after is not None]),
        why=first.why,
        reproduce=records[0].reproduce,
        example=first.id,
    )


def _side(pairs: Sequence[tuple[Record, Record | None]]) -> Side | None:
    """One side of an entry from pairs (its record, the other side's); the commonest reasons come first."""
    if not pairs:
        return None
    counts = Counter(reason for record, other in pairs for reason in _reasons(record, other))
    reasons = [reason for reason, _ in counts.most_common()]
    return Side(
        label=label_of(pairs[0][0]),
        outcome=pairs[0][0].outcome.value,
        reasons=tuple(reasons[:REASONS]),
        more_reasons=max(0, len(reasons) - REASONS),
    )


def _reasons(record: Record, other: Record | None) -> list[str]:
    """Why ``record`` decided as it did: all refusals where it has no kernel, else why not the other side's kernel."""
    if record.chosen is None:
        refusals = [f"{candidate.name}: {state(candidate)}" for candidate in record.candidates]
        return refusals or [record.reason]
    reasons = [record.reason]
    if other is None or route(record) == route(other):
        return reasons
    if other.chosen is not None and other.chosen != record.chosen:
        reasons.append(f"{other.chosen}: {passed_over(record, other.chosen)}")
        return reasons
    refused = [candidate for candidate in record.candidates if candidate.accepted is False]
    return reasons + [f"{candidate.name}: {state(candidate)}" for candidate in refused]
