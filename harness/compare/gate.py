"""What blocks a merge: the one place that turns records and verdicts into an exit code.

In: records or a comparison. Out: an exit code with its reasons. Pure. Exit codes as in ``harness.model.errors``:
0 clean, 1 a failure or a regression, 3 nothing to judge, 4 the environment served no cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.compare.explain import works
from harness.model.errors import NothingSelectedError, UnservableError
from harness.model.record import Outcome, Record
from harness.model.run import Comparison, Manifest, Row, Verdict

CLEAN = 0
FAILED = 1

_UNDECIDED = frozenset({Outcome.NOT_RUN, Outcome.INFRA, Outcome.UNSUPPORTED, Outcome.INDETERMINATE})


@dataclass(frozen=True)
class Gate:
    """The answer of the gate."""

    exit_code: int
    reasons: tuple[str, ...]
    """Why it is not clean, one sentence each; empty when it is."""

    @property
    def passed(self) -> bool:
        """True when nothing blocks."""
        return self.exit_code == CLEAN


def judge_check(records: Sequence[Record], cells: int = 0) -> Gate:
    """Judge one run.

    A bad outcome blocks, and so does a run that lost records. Nothing selected, or nothing that this environment could
    run, is never a success.

    Args:
        records: of the run.
        cells: how many records the run should have; 0 where that is not known.
    """
    if not records:
        return Gate(NothingSelectedError.exit_code, ("there is no record: nothing was selected",))
    counts = Counter(record.outcome for record in records)
    reasons = [f"{count} {outcome.value}" for outcome, count in sorted(counts.items()) if outcome.is_bad]
    if len(records) < cells:
        reasons.append(f"{cells - len(records)} of {cells} records are missing")
    if reasons:
        return Gate(FAILED, tuple(reasons))
    if _UNDECIDED.issuperset(counts):
        return Gate(UnservableError.exit_code, ("no cell was decided: each was unsupported, indeterminate or not run",))
    return Gate(CLEAN, ())


def judge_compare(comparison: Comparison) -> Gate:
    """Judge a comparison.

    These block: a regression, unless the matrix lists it as a known failure (an issue, an owner, an expiry date);
    records that a cut-off candidate does not have; and a removed record that worked, when both runs say that they asked
    for the same cells (equal matrix, targets and tiers), because then nobody declared the loss. A reroute does not
    block: it is for the reviewer to read. A failure on both sides does not: ``check`` reports it.
    """
    if not comparison.rows:
        return Gate(NothingSelectedError.exit_code, ("neither run has a record: nothing was compared",))
    regressed = [row for row in comparison.rows if _is_regression(row)]
    reasons = [f"{len(regressed)} regressed"] if regressed else []
    got, cells = sum(row.after is not None for row in comparison.rows), comparison.candidate.cells
    if got < cells:
        reasons.append(f"{cells - got} of {cells} records of the candidate are missing")
    elif _same_question(comparison.baseline, comparison.candidate):
        lost = sum(
            row.after is None and row.before is not None and works(row.before) is True for row in comparison.rows
        )
        reasons += [f"{lost} removed that worked, although both runs asked for the same cells"] if lost else []
    return Gate(FAILED if reasons else CLEAN, tuple(reasons))


def exit_code_of_check(records: Sequence[Record]) -> int:
    """The exit code of ``gfxloop check`` (see ``judge_check``)."""
    return judge_check(records).exit_code


def exit_code_of_compare(comparison: Comparison) -> int:
    """The exit code of ``gfxloop compare`` (see ``judge_compare``)."""
    return judge_compare(comparison).exit_code


def _is_regression(row: Row) -> bool:
    return row.verdict is Verdict.REGRESSED and row.after is not None and row.after.outcome.is_bad


def _same_question(baseline: Manifest, candidate: Manifest) -> bool:
    """Whether both runs, by their own word, asked for the same cells."""
    asked = [(m.matrix_digest, set(m.targets), set(m.tiers)) for m in (baseline, candidate)]
    return asked[0] == asked[1]
