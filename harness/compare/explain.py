"""What differs between two records of one cell, in words, and what counts as another route.

In: records. Out: sentences and comparable values. Pure; it gives no verdict.
"""

from __future__ import annotations

from harness.model.record import Candidate, Outcome, Record
from harness.model.run import Row

NO_KERNEL = "no kernel"

_WORKS = frozenset({Outcome.PASSED, Outcome.UNEXPECTED_PASS})
_FAILS = frozenset({Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.EXPECTED_FAILURE})


def works(record: Record) -> bool | None:
    """Whether the subject does right by the cell, whatever the matrix expected; None where nothing was decided.

    An unexpected pass works and an expected failure fails: a comparison judges the subject, not the list of known
    failures.
    """
    if record.outcome in _WORKS:
        return True
    return False if record.outcome in _FAILS else None


def route(record: Record) -> tuple[str | None, tuple[tuple[str, bool], ...]]:
    """The decision without its words: the kernel, and every candidate that was reached, in order, accepted or not."""
    reached = ((c.name, c.accepted) for c in record.candidates if c.accepted is not None)
    return record.chosen, tuple(reached)


def rules(record: Record) -> frozenset[tuple[str, str]]:
    """The rules that the record breaks, each with the symbol at fault."""
    return frozenset((finding.rule, finding.symbol) for finding in record.findings)


def is_rerouted(row: Row) -> bool:
    """True where both sides exist and the decision differs, whatever the verdict says about right and wrong."""
    return row.before is not None and row.after is not None and route(row.before) != route(row.after)


def state(candidate: Candidate) -> str:
    """What became of one candidate, with vLLM's own words."""
    if candidate.accepted is None:
        return "not reached"
    word = "accepted" if candidate.accepted else "refused"
    return f"{word}: {candidate.reason}" if candidate.reason else word


def passed_over(record: Record, name: str) -> str:
    """Why the record did not choose ``name``."""
    states = [state(candidate) for candidate in record.candidates if candidate.name == name]
    return "; ".join(states) if states else "not among the candidates"


def changes(before: Record, after: Record) -> tuple[str, ...]:
    """Every difference that a reader should know of, the weightiest first; empty for equal records."""
    found = []
    if before.chosen != after.chosen:
        found.append(f"chosen: {before.chosen or NO_KERNEL} -> {after.chosen or NO_KERNEL}")
    if before.outcome is not after.outcome:
        found.append(f"outcome: {before.outcome.value} -> {after.outcome.value}")
    found += _candidate_changes(before, after)
    found += [f"no longer breaks {rule} at {symbol}" for rule, symbol in sorted(rules(before) - rules(after))]
    found += [f"now breaks {rule} at {symbol}" for rule, symbol in sorted(rules(after) - rules(before))]
    if before.expected != after.expected:
        found.append("the matrix expects something else of the cell")
    if before.attachment is not after.attachment:
        found.append(f"target: {before.attachment.value} -> {after.attachment.value}")
    return tuple(found)


def _candidate_changes(before: Record, after: Record) -> list[str]:
    """Candidates that came, went, changed sides, moved, or whose reason has other words."""
    old = {candidate.name: candidate for candidate in before.candidates}
    new = {candidate.name: candidate for candidate in after.candidates}
    found = [f"{name} is no longer a candidate" for name in old if name not in new]
    found += [f"{name} is a new candidate ({state(new[name])})" for name in new if name not in old]
    for name in (name for name in old if name in new):
        was, now = old[name], new[name]
        if was.accepted is not now.accepted:
            found.append(f"{name}: {state(was)} -> {state(now)}")
        elif was.reason != now.reason:
            found.append(f"{name}: other words for the reason: {was.reason!r} -> {now.reason!r}")
    if [name for name in old if name in new] != [name for name in new if name in old]:
        found.append("the candidates are asked in another order")
    return found
