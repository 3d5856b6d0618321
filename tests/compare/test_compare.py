from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compare.compare import compare, differing_facts
from harness.model.record import Candidate, Finding, Outcome
from harness.model.run import Run, Verdict
from harness.model.subject import Aiter

MIRROR = {
    Verdict.REGRESSED: Verdict.FIXED,
    Verdict.FIXED: Verdict.REGRESSED,
    Verdict.ADDED: Verdict.REMOVED,
    Verdict.REMOVED: Verdict.ADDED,
}

# One record, as the few things that decide a verdict: outcome, kernel, words, accepted, shape, finding.
PARTS = st.tuples(
    st.sampled_from(Outcome),
    st.sampled_from(["A", "B", None]),
    st.sampled_from(["", "words", "other words"]),
    st.sampled_from([True, False, None]),
    st.sampled_from([(1, 2), None]),
    st.booleans(),
)
RUNS = st.dictionaries(st.sampled_from("abcdefgh"), PARTS)


def built(samples: ModuleType, parts: dict[str, tuple[Any, ...]]) -> Run:
    return samples.run(*(record(samples, id_, *values) for id_, values in parts.items()))


def record(
    samples: ModuleType, id_: str, outcome: Outcome, chosen: Any, words: str, accepted: Any, shape: Any, bad: bool
) -> Any:
    return samples.record(
        id_,
        outcome=outcome,
        chosen=chosen,
        shape=shape,
        candidates=(Candidate(name="A", accepted=accepted, reason=words), Candidate(name="B", accepted=True)),
        findings=(Finding(rule="r", symbol="s", message=words),) if bad else (),
    )


def verdicts(baseline: Run, candidate: Run) -> dict[str, Verdict]:
    return {row.id: row.verdict for row in compare(baseline, candidate).rows}


@given(parts=RUNS)
def test_a_run_does_not_differ_from_itself(samples: ModuleType, parts: dict[str, Any]) -> None:
    run = built(samples, parts)
    comparison = compare(run, run)
    assert {row.verdict for row in comparison.rows} <= {Verdict.UNCHANGED, Verdict.KNOWN}
    assert comparison.differs == ()


@given(one=RUNS, other=RUNS)
def test_the_reverse_comparison_is_the_mirror_image(
    samples: ModuleType, one: dict[str, Any], other: dict[str, Any]
) -> None:
    there, back = built(samples, one), built(samples, other)
    mirrored = {id_: MIRROR.get(verdict, verdict) for id_, verdict in verdicts(back, there).items()}
    assert verdicts(there, back) == mirrored


@given(one=RUNS, other=RUNS)
def test_every_record_is_in_exactly_one_row_with_a_reason(
    samples: ModuleType, one: dict[str, Any], other: dict[str, Any]
) -> None:
    baseline, candidate = built(samples, one), built(samples, other)
    rows = compare(baseline, candidate).rows
    assert [row.id for row in rows] == sorted({*one, *other})
    assert {row.before for row in rows} - {None} == set(baseline.records)
    assert {row.after for row in rows} - {None} == set(candidate.records)
    assert all(row.why for row in rows)


@given(one=RUNS, other=RUNS, seed=st.integers())
def test_the_order_of_records_does_not_matter(
    samples: ModuleType, one: dict[str, Any], other: dict[str, Any], seed: int
) -> None:
    baseline, candidate = built(samples, one), built(samples, other)
    shuffled = list(candidate.records)
    random.Random(seed).shuffle(shuffled)
    assert compare(baseline, candidate) == compare(baseline, candidate.model_copy(update={"records": tuple(shuffled)}))


REFUSED = (Candidate(name="AiterBlock", accepted=False, reason="no"), Candidate(name="TritonBlock", accepted=True))
REWORDED = (Candidate(name="AiterBlock", accepted=False, reason="never"), Candidate(name="TritonBlock", accepted=True))
FEWER = (Candidate(name="TritonBlock", accepted=True),)


@pytest.mark.parametrize(
    ("before", "after", "verdict", "why"),
    [
        ({}, {}, Verdict.UNCHANGED, "equal"),
        (
            {"candidates": REFUSED},
            {"candidates": REWORDED},
            Verdict.UNCHANGED,
            "AiterBlock: other words for the reason: 'no' -> 'never'",
        ),
        ({}, {"chosen": "Other"}, Verdict.REROUTED, "chosen: TritonBlock -> Other"),
        ({"candidates": REFUSED}, {"candidates": FEWER}, Verdict.REROUTED, "AiterBlock is no longer a candidate"),
        ({}, {"chosen": None}, Verdict.REROUTED, "chosen: TritonBlock -> no kernel"),
        ({}, {"outcome": Outcome.FAILED}, Verdict.REGRESSED, "outcome: passed -> failed"),
        (
            {},
            {"outcome": Outcome.CRASHED, "chosen": None},
            Verdict.REGRESSED,
            "chosen: TritonBlock -> no kernel; outcome: passed -> crashed",
        ),
        ({"outcome": Outcome.TIMED_OUT}, {}, Verdict.FIXED, "outcome: timed_out -> passed"),
        (
            {"outcome": Outcome.FAILED},
            {"outcome": Outcome.FAILED},
            Verdict.KNOWN,
            "failed on both sides: every rule holds",
        ),
        ({"outcome": Outcome.FAILED}, {"outcome": Outcome.CRASHED}, Verdict.KNOWN, "outcome: failed -> crashed"),
        (
            {"outcome": Outcome.EXPECTED_FAILURE},
            {"outcome": Outcome.UNEXPECTED_PASS},
            Verdict.FIXED,
            "outcome: expected_failure -> unexpected_pass",
        ),
        (
            {"outcome": Outcome.PASSED},
            {"outcome": Outcome.UNEXPECTED_PASS},
            Verdict.UNCHANGED,
            "outcome: passed -> unexpected_pass",
        ),
        ({}, {"outcome": Outcome.INFRA, "reason": "no GPU"}, Verdict.NOT_COMPARABLE, "candidate infra: no GPU"),
        (
            {"outcome": Outcome.UNSUPPORTED, "reason": "too old"},
            {},
            Verdict.NOT_COMPARABLE,
            "baseline unsupported: too old",
        ),
        (
            {"outcome": Outcome.NOT_RUN, "reason": "a"},
            {"outcome": Outcome.INDETERMINATE, "reason": "b"},
            Verdict.NOT_COMPARABLE,
            "baseline not_run: a; candidate indeterminate: b",
        ),
        (
            {"outcome": Outcome.UNSUPPORTED, "reason": "a"},
            {"outcome": Outcome.UNSUPPORTED, "reason": "b"},
            Verdict.UNCHANGED,
            "unsupported on both sides: b",
        ),
        ({}, {"shape": (1, 2)}, Verdict.NOT_COMPARABLE, "the cell has another shape: (7168, 2048) -> (1, 2)"),
    ],
)
def test_the_verdict_on_one_cell(
    samples: ModuleType, before: dict[str, Any], after: dict[str, Any], verdict: Verdict, why: str
) -> None:
    (row,) = compare(samples.run(samples.record(**before)), samples.run(samples.record(**after))).rows
    assert (row.verdict, row.why) == (verdict, why)


def test_cells_of_one_side_are_added_or_removed(samples: ModuleType) -> None:
    comparison = compare(samples.run(samples.record("gone")), samples.run(samples.record("come")))
    assert [(row.id, row.verdict, row.why) for row in comparison.rows] == [
        ("come", Verdict.ADDED, "only in the candidate: passed"),
        ("gone", Verdict.REMOVED, "only in the baseline: passed"),
    ]


def test_facts_besides_the_tree_are_named(samples: ModuleType) -> None:
    one, other = samples.manifest("pypi:0.28.0"), samples.manifest("pypi:0.29.0")
    assert differing_facts(one, other) == ()
    subject = other.subject.model_copy(
        update={"aiter": Aiter(spec="tables:x", mode="tables", digest="t"), "env": {"K": "1"}, "packages": {"p": True}}
    )
    changed = other.model_copy(
        update={"subject": subject, "matrix_digest": "m2", "versions": {"torch": "9"}, "targets": ()}
    )
    assert differing_facts(one, changed) == (
        "matrix: m1 in the baseline, m2 in the candidate",
        "AITER: stand-in in the baseline, tables t in the candidate",
        "version of torch: 2.13 in the baseline, 9 in the candidate",
        "target gfx942/MI300X simulated: part of the run in the baseline, absent in the candidate",
        "environment K: absent in the baseline, '1' in the candidate",
        "package p: absent in the baseline, present in the candidate",
    )
