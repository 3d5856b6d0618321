"""Compare two runs: every record of either side goes into exactly one row with one verdict.

In: two runs. Out: a ``Comparison``. Pure, and symmetric: swapping the runs swaps regressed with fixed and added with
removed, and leaves every other verdict as it is. It does not say what blocks a merge (``harness.compare.gate`` does).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.compare.explain import changes, route, rules, works
from harness.model.record import Record
from harness.model.run import Comparison, Manifest, Row, Run, Verdict


def compare(baseline: Run, candidate: Run) -> Comparison:
    """Match the records of two runs by id and judge each pair. Rows come in the order of their ids."""
    before = {record.id: record for record in baseline.records}
    after = {record.id: record for record in candidate.records}
    rows = (_row(id_, before.get(id_), after.get(id_)) for id_ in sorted(before.keys() | after.keys()))
    return Comparison(
        baseline=baseline.manifest,
        candidate=candidate.manifest,
        rows=tuple(rows),
        differs=differing_facts(baseline.manifest, candidate.manifest),
    )


def _row(id_: str, before: Record | None, after: Record | None) -> Row:
    """One cell compared; one of the two sides exists."""
    if before is not None and after is not None:
        verdict, why = judge(before, after)
    elif after is not None:
        verdict, why = Verdict.ADDED, f"only in the candidate: {after.outcome.value}"
    else:
        verdict, why = Verdict.REMOVED, f"only in the baseline: {before.outcome.value if before else ''}"
    return Row(id=id_, verdict=verdict, why=why, before=before, after=after)


def judge(before: Record, after: Record) -> tuple[Verdict, str]:
    """The verdict on one cell that both runs have, and why.

    ========================  =======================================================================================
    not_comparable            the cell asks for another shape, or a side is undecided and the sides are not equal
    unchanged                 both undecided and equal; or both work and the decision is the same, whatever its words
    regressed, fixed          worked and fails now, or the reverse
    known                     fails on both sides
    rerouted                  both work, with another kernel, or other candidates accepted or refused on the way
    ========================  =======================================================================================
    """
    worked, works_now = works(before), works(after)
    found = "; ".join(changes(before, after))
    if before.shape != after.shape:
        return Verdict.NOT_COMPARABLE, f"the cell has another shape: {before.shape} -> {after.shape}"
    if worked is None or works_now is None:
        if _essence(before) == _essence(after):
            return Verdict.UNCHANGED, found or f"{after.outcome.value} on both sides: {after.reason}"
        return Verdict.NOT_COMPARABLE, _undecided(before, after)
    if worked is not works_now:
        return (Verdict.FIXED if works_now else Verdict.REGRESSED), found
    if not works_now:
        return Verdict.KNOWN, found or f"{after.outcome.value} on both sides: {after.reason}"
    if route(before) != route(after):
        return Verdict.REROUTED, found or "the candidates are asked otherwise"
    return Verdict.UNCHANGED, found or "equal"


def _essence(record: Record) -> tuple[object, ...]:
    """What must be equal for two undecided records to be the same."""
    return record.outcome, route(record), rules(record)


def _undecided(before: Record, after: Record) -> str:
    """Names the undecided side or sides, with their reasons."""
    sides = (("baseline", before), ("candidate", after))
    return "; ".join(
        f"{name} {record.outcome.value}: {record.reason}" for name, record in sides if works(record) is None
    )


def differing_facts(baseline: Manifest, candidate: Manifest) -> tuple[str, ...]:
    """Facts other than the subject's tree in which two runs differ, one sentence each."""
    before, after = facts_of(baseline), facts_of(candidate)
    names = list(dict.fromkeys([*before, *after]))
    return tuple(
        f"{name}: {before.get(name, 'absent')} in the baseline, {after.get(name, 'absent')} in the candidate"
        for name in names
        if before.get(name) != after.get(name)
    )


def facts_of(manifest: Manifest) -> Mapping[str, str]:
    """The facts of a run that can change its records and are not the subject's tree: name -> value in words."""
    subject = manifest.subject
    facts = {
        "matrix": manifest.matrix_digest,
        "AITER": f"{subject.aiter.mode} {subject.aiter.digest}".strip(),
        "gfxloop": manifest.gfxloop,
        "harness": manifest.harness_digest,
        "tiers": ", ".join(sorted(manifest.tiers)),
    }
    facts |= {f"environment {name}": repr(value) for name, value in sorted(subject.env.items())}
    facts |= {f"package {name}": "present" if on else "absent" for name, on in sorted(subject.packages.items())}
    facts |= {f"version of {name}": value for name, value in sorted(manifest.versions.items())}
    facts |= {f"target {name}": "part of the run" for name in sorted(manifest.targets)}
    return facts
