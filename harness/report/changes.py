"""The rows of a comparison, collapsed: cells that changed in the same way are one entry.

In: a ``Comparison``. Out: a ``ComparisonSummary`` that both the terminal and the Markdown page render. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.compare.explain import changes, is_rerouted
from harness.compare.gate import Gate, judge_compare
from harness.model.cell import Surface
from harness.model.record import Record
from harness.model.run import Comparison, Manifest, Row, Verdict
from harness.report.sides import Side, side_of
from harness.report.summary import verdict_word
from harness.report.text import natural, one_line
from harness.report.where import Population, attachments, label_of

CHANGED = (Verdict.REGRESSED, Verdict.FIXED, Verdict.REROUTED)
"""Verdicts told in full, in this order."""
TITLES = {
    (Verdict.REGRESSED, True): "Regressed",
    (Verdict.FIXED, True): "Fixed",
    (Verdict.REROUTED, True): "Rerouted to another kernel",
    (Verdict.REROUTED, False): "Rerouted: the same kernel, after other candidates",
    (Verdict.KNOWN, True): "Failing on both sides, but not in the same way",
    (Verdict.KNOWN, False): "known (failing on both sides alike)",
    (Verdict.ADDED, True): "added (only in the candidate)",
    (Verdict.REMOVED, True): "removed (only in the baseline)",
}
"""(verdict, whether the two sides differ in what matters most for it) -> what a page calls such entries."""


@dataclass(frozen=True)
class Change:
    """Cells of one kernel family that changed in one way."""

    verdict: Verdict
    rerouted: bool
    """True where the decision differs: a fixed or regressed cell may be rerouted too."""
    kernel_differs: bool
    """True where another kernel is chosen, or none."""
    surface: Surface
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
    told: bool
    """Whether a page tells both sides, or only counts the cells."""

    @property
    def title(self) -> str:
        """What a page calls it: a heading for what is told in full."""
        differs = {Verdict.REROUTED: self.kernel_differs, Verdict.KNOWN: self.told}.get(self.verdict, True)
        return TITLES.get((self.verdict, differs), self.verdict.value.replace("_", " "))


@dataclass(frozen=True)
class ComparisonSummary:
    """Everything that a page about one comparison says."""

    baseline: str
    candidate: str
    header: tuple[tuple[str, str], ...]
    """(label, text): both subjects, and which targets were attached or simulated."""
    verdicts: Mapping[Verdict, int]
    gate: Gate
    differs: tuple[str, ...]
    told: tuple[Change, ...]
    """Regressed, fixed, rerouted, and known failures that fail in another way now; the weightiest first."""
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
    told = [row for row in comparison.rows if _is_told(row)]
    ids = {row.id for row in told}
    rest = [row for row in comparison.rows if row.verdict is not Verdict.UNCHANGED and row.id not in ids]
    population = Population.of([_present(row) for row in comparison.rows])
    return ComparisonSummary(
        baseline=one_line(comparison.baseline.subject.spec),
        candidate=one_line(comparison.candidate.subject.spec),
        header=_header(comparison),
        verdicts={verdict: counts[verdict] for verdict in Verdict if counts[verdict]},
        gate=judge_compare(comparison),
        differs=comparison.differs,
        told=_grouped(told, population),
        counted=_grouped(rest, population),
    )


def _header(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """The two subjects, and what was attached: once where both sides agree."""
    before = attachments(row.before for row in comparison.rows if row.before)
    after = attachments(row.after for row in comparison.rows if row.after)
    subjects = (("baseline", _subject(comparison.baseline)), ("candidate", _subject(comparison.candidate)))
    if before == after:
        return (*subjects, *((kind.value, names) for kind, names in after.items()))
    sides = (("baseline", before), ("candidate", after))
    return (
        *subjects,
        *((f"{kind.value} in the {side}", names) for side, found in sides for kind, names in found.items()),
    )


def _subject(manifest: Manifest) -> str:
    subject = manifest.subject
    return f"{subject.spec} (vLLM {subject.version}), AITER {subject.aiter.spec}, run of {manifest.started}"


def _is_told(row: Row) -> bool:
    """Changed, or a known failure that fails otherwise now: a second fault may hide behind the first."""
    if row.verdict is not Verdict.KNOWN:
        return row.verdict in CHANGED
    return bool(row.before and row.after and changes(row.before, row.after))


def _grouped(rows: Sequence[Row], population: Population) -> tuple[Change, ...]:
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        record = _present(row)
        told = _is_told(row)
        detail = (_look(row.before), _look(row.after)) if told else _class_of(row)
        groups.setdefault((row.verdict, record.surface, record.family if told else "", detail), []).append(row)
    found = [_change(members, population) for members in groups.values()]
    order = [*CHANGED, *(verdict for verdict in Verdict if verdict not in CHANGED)]
    return tuple(
        sorted(
            found,
            key=lambda c: (order.index(c.verdict), not c.kernel_differs, -c.cells, natural(c.example)),
        )
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


def _change(rows: Sequence[Row], population: Population) -> Change:
    records = [_present(row) for row in rows]
    first = rows[0]
    targets, place = population.placed(records)
    return Change(
        verdict=first.verdict,
        rerouted=any(map(is_rerouted, rows)),
        kernel_differs=bool(first.before and first.after and first.before.chosen != first.after.chosen),
        surface=records[0].surface,
        family=", ".join(sorted({record.family for record in records})),
        cells=len(rows),
        targets=targets,
        where=place,
        before=side_of([(row.before, row.after) for row in rows if row.before is not None]),
        after=side_of([(row.after, row.before) for row in rows if row.after is not None]),
        why=first.why,
        reproduce=records[0].reproduce,
        example=first.id,
        told=_is_told(first),
    )
