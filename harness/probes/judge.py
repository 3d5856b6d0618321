"""From what a worker saw to what it is worth: (cell, observation, matrix) -> record. Pure.

In: an observation and what matrix.yaml says of the cell. Out: a record with an outcome and a reason. "Cannot tell"
stays ``indeterminate`` whatever is expected, and a fault that the probe saw is a failure whatever is expected.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import MappingProxyType

from harness.matrix import Excepted, Expected, KnownFailure
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence, Finding, Observation, Outcome, Record
from harness.model.target import Attachment
from harness.probes.invariants import Seen, broken, broken_across

REFUSAL = "none"
"""What matrix.yaml calls a refusal."""

_WITHOUT_ANSWER: Mapping[Ended, Outcome] = {
    Ended.UNSUPPORTED: Outcome.UNSUPPORTED,
    Ended.INDETERMINATE: Outcome.INDETERMINATE,
    Ended.DIED: Outcome.CRASHED,
    Ended.TIMED_OUT: Outcome.TIMED_OUT,
    Ended.RAISED: Outcome.CRASHED,
}


def judge(
    cell: Cell,
    seen: Observation,
    options: str,
    expected: Expected | None,
    known: KnownFailure | None,
    *,
    others: tuple[Seen, ...] = (),
    excepted: Mapping[str, Excepted] = MappingProxyType({}),
    attachment: Attachment = Attachment.SIMULATED,
) -> Record:
    """The record of one cell: what the worker saw, held against the invariants and against what the matrix says.

    Args:
        cell: the question.
        seen: what the worker saw.
        options: the command-line options that name the subject again, for the command that reproduces the cell.
        expected: what the matrix expects.
        known: why the cell is known to fail.
        others: cells of the same run that this one has to agree with, and what was seen of them.
        excepted: invariants that the cell may break, by rule.
        attachment: whether a real device answered.
    """
    every = seen.findings + broken(cell, seen) + broken_across(cell, seen, others) + _unexpected(cell, seen, expected)
    findings = tuple(finding for finding in every if finding.rule not in excepted)
    outcome, reason = _outcome(seen, findings, expected)
    outcome, reason = _known(outcome, reason.strip() or f"{seen.ended}, without a word", known)
    return Record(
        id=cell.id,
        platform=cell.target.platform,
        target=cell.target.gfx,
        device=cell.target.product,
        attachment=attachment,
        tier=cell.tier,
        surface=cell.kernel.surface,
        family=cell.kernel.family,
        kernel=cell.kernel.name,
        environment=cell.environment,
        model=cell.model,
        tp=cell.tp,
        layer=cell.layer.name if cell.layer else None,
        shape=(cell.layer.n, cell.layer.k) if cell.layer else None,
        chosen=seen.chosen,
        outcome=outcome,
        reason=reason,
        candidates=seen.candidates,
        evidence=seen.evidence + tuple(_excepted(f, excepted[f.rule]) for f in every if f.rule in excepted),
        findings=findings,
        expected=_words(expected),
        reproduce=f"gfxloop reproduce {shlex.quote(cell.id)} {options}",
    )


def _excepted(finding: Finding, excepted: Excepted) -> Evidence:
    """A finding that the matrix excepts stays visible."""
    words = f"{excepted.issue}, owner {excepted.owner}, until {excepted.expires}: {excepted.reason}"
    return Evidence(question=f"{finding.rule} excepted: {finding.message}", answer=words, source=excepted.where)


def _unexpected(cell: Cell, seen: Observation, expected: Expected | None) -> tuple[Finding, ...]:
    """The findings that the matrix's expectation makes of an answer."""
    if expected is None or seen.ended not in (Ended.ANSWERED, Ended.REFUSED):
        return ()
    answer = REFUSAL if seen.ended is Ended.REFUSED else str(seen.chosen)
    if answer not in expected.never and (expected.allowed is None or answer in expected.allowed):
        return ()
    got = "vLLM refuses" if seen.ended is Ended.REFUSED else f"{cell.kernel.name} gives {seen.chosen}"
    message = f"{got} on {cell.target.name}: {expected.because}. Expected {_names(expected)} [{expected.where}]"
    return (Finding(rule="expectation", symbol=seen.symbol or str(seen.chosen), message=message),)


def _outcome(seen: Observation, findings: tuple[Finding, ...], expected: Expected | None) -> tuple[Outcome, str]:
    if findings:
        return Outcome.FAILED, "; ".join(finding.message for finding in findings)
    if seen.ended in _WITHOUT_ANSWER:
        return _WITHOUT_ANSWER[seen.ended], seen.detail
    if seen.ended is Ended.REFUSED:
        # The reasons that vLLM lists below its first line are the candidates' own words.
        first = seen.detail.partition("\n")[0].removesuffix("Reasons: ").rstrip(" .")
        reason = f"vLLM refuses: {first}" + ("" if seen.candidates else " (it lists no kernel for this)")
    else:
        reason = f"{seen.chosen}" + (f": {seen.detail}" if seen.detail else "")
    stated = expected is not None and expected.allowed is not None
    return Outcome.PASSED, reason + (f"; as expected: {expected.because}" if expected and stated else "")


def _known(outcome: Outcome, reason: str, known: KnownFailure | None) -> tuple[Outcome, str]:
    if known is None:
        return outcome, reason
    about = f"known failure {known.issue}, owner {known.owner}, until {known.expires} [{known.where}]"
    if outcome.is_bad:
        return Outcome.EXPECTED_FAILURE, f"{about}: {reason}"
    if outcome is Outcome.PASSED:
        return Outcome.UNEXPECTED_PASS, f"it passes; take out the {about}. {reason}"
    return outcome, reason


def _words(expected: Expected | None) -> str | None:
    """The expectation in words: ``A or B, never C: because``."""
    if expected is None:
        return None
    return f"{_names(expected)}: {expected.because}"


def _names(expected: Expected) -> str:
    """``A or B, never C``."""
    parts = []
    if expected.allowed is not None:
        parts.append(" or ".join(sorted("a refusal" if name == REFUSAL else name for name in expected.allowed)))
    if expected.never:
        parts.append("never " + " or ".join(sorted(expected.never)))
    return ", ".join(parts)
