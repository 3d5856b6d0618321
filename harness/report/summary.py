"""One run, aggregated once for every format: header, outcomes, faults, routing decisions, undecided cells.

In: a ``Run``. Out: a ``Summary``, which is small (hundreds of entries for thousands of records) and does not depend on
the order of the records. Pure: formats render it, and never look at the records themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.compare.gate import Gate, judge_check
from harness.model.record import Outcome, Record
from harness.model.run import Manifest, Run
from harness.model.subject import Subject
from harness.model.target import Attachment
from harness.report.faults import Fault, failures, known
from harness.report.grids import Answers, Grid, answers, grids
from harness.report.routes import Block, Family, families, overview
from harness.report.text import natural, one_line
from harness.report.undecided import Undecided, undecided
from harness.report.where import attachments, by_platform, target_of

ROWS = 30
"""With more sets of targets than this, ``overview`` folds the platforms that are not ROCm."""
_TARGET = re.compile(r"(.+?) (?:simulated|attached) \((.*)\)")


@dataclass(frozen=True)
class TargetLine:
    """One target of the run."""

    name: str
    attachment: Attachment
    outcomes: Mapping[Outcome, int]


@dataclass(frozen=True)
class Summary:
    """Everything that a page about one run says."""

    subject: str
    header: tuple[tuple[str, str], ...]
    """(label, text) lines about the run."""
    outcomes: Mapping[Outcome, int]
    """Every outcome that occurs, in the order of ``Outcome``."""
    gate: Gate
    targets: tuple[TargetLine, ...]
    failures: tuple[Fault, ...]
    known: tuple[Fault, ...]
    undecided: tuple[Undecided, ...]
    overview: tuple[Block, ...]
    """What is chosen, one entry a family and a set of targets."""
    families: tuple[Family, ...]
    """What is chosen, refused and why."""
    answers: tuple[Answers, ...]
    """The surfaces that choose nothing, a line each."""
    grids: tuple[Grid, ...]
    """Their answers, question x target."""
    sources: tuple[tuple[str, tuple[str, ...]], ...]
    """Where the facts about the targets come from: (source, targets)."""
    reproduce: str
    """The command that asks one cell again; ``ID`` stands for the cell."""
    notes: tuple[str, ...]

    @property
    def verdict_line(self) -> str:
        """``gfxloop: FAILED: 5 passed, 2 failed on pypi:0.28.0``, the last line but one of every check."""
        return f"gfxloop: {verdict_word(self.gate)}: {tally(self.outcomes)} on {self.subject}"


def summarise(run: Run) -> Summary:
    """Aggregate a run."""
    records = sorted(run.records, key=lambda record: natural(record.id))
    return Summary(
        subject=one_line(run.manifest.subject.spec),
        header=header(run.manifest, records),
        outcomes=outcome_counts(records),
        gate=judge_check(records, run.manifest.cells),
        targets=_targets(records),
        failures=failures(records),
        known=known(records),
        undecided=undecided(records),
        overview=overview(records, ROWS),
        families=families(records),
        answers=answers(records),
        grids=grids(records),
        sources=sources(run.manifest.targets),
        reproduce=f"gfxloop reproduce ID {run.manifest.subject.options}",
        notes=run.notes,
    )


def verdict_word(gate: Gate) -> str:
    """PASSED or FAILED."""
    return "PASSED" if gate.passed else "FAILED"


def outcome_counts(records: Sequence[Record]) -> dict[Outcome, int]:
    """How many records have each outcome that occurs, in the order of ``Outcome``."""
    counts = Counter(record.outcome for record in records)
    return {outcome: counts[outcome] for outcome in Outcome if counts[outcome]}


def tally(outcomes: Mapping[Outcome, int]) -> str:
    """``12 passed, 0 failed, 3 unsupported``: passed and failed always, the others where they occur."""
    shown = {Outcome.PASSED: 0, Outcome.FAILED: 0} | dict(outcomes)
    return ", ".join(f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in shown.items())


def header(manifest: Manifest, records: Sequence[Record]) -> tuple[tuple[str, str], ...]:
    """What was tested, with what, on which targets, as (label, text); lines that would say nothing are left out."""
    found = attachments(records)
    lines = (
        *subject_lines(manifest.subject),
        ("attached", found[Attachment.ATTACHED]),
        ("simulated", found[Attachment.SIMULATED]),
        ("tiers", ", ".join(manifest.tiers)),
        ("matrix", manifest.matrix_digest),
        ("versions", ", ".join(f"{name} {value}" for name, value in sorted(manifest.versions.items()))),
        ("gfxloop", manifest.gfxloop),
        ("started", manifest.started + (f", finished {manifest.finished}" if manifest.finished else ", not finished")),
        ("command", manifest.command),
    )
    return tuple((label, text) for label, text in lines if text)


def subject_lines(subject: Subject) -> tuple[tuple[str, str], ...]:
    """The subject's identity as (label, text)."""
    digest = f" (digest {subject.aiter.digest})" if subject.aiter.digest else ""
    packages = (f"{'+' if present else '-'}{name}" for name, present in sorted(subject.packages.items()))
    return (
        ("subject", f"{subject.spec} (vLLM {subject.version})"),
        ("digest", subject.digest),
        ("AITER", subject.aiter.spec + digest),
        ("environment", ", ".join(f"{name}={value}" for name, value in sorted(subject.env.items()))),
        ("packages", ", ".join(packages)),
    )


def _targets(records: Sequence[Record]) -> tuple[TargetLine, ...]:
    """One line a target and attachment, platforms in the order of ``Platform``."""
    groups: dict[tuple[str, Attachment], list[Record]] = {}
    for record in records:
        groups.setdefault((target_of(record), record.attachment), []).append(record)
    keys = sorted(groups, key=lambda key: (by_platform(groups[key][0]), key[1]))
    return tuple(TargetLine(name, kind, outcome_counts(groups[name, kind])) for name, kind in keys)


def sources(targets: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The manifest's lines about its targets turned round: each source with the targets that it speaks of.

    Args:
        targets: ``name simulated (source; source)``; a line of another form is a source of its own.
    """
    found: dict[str, list[str]] = {}
    for line in targets:
        parts = _TARGET.fullmatch(line)
        for source in parts[2].split("; ") if parts else [line]:
            found.setdefault(source, []).extend([parts[1]] if parts else [])
    return tuple((source, tuple(names)) for source, names in found.items())
