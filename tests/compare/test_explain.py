from __future__ import annotations

from types import ModuleType

import pytest

from harness.compare.explain import changes, is_rerouted, passed_over, route, works
from harness.model.record import Candidate, Finding, Outcome
from harness.model.run import Row, Verdict
from harness.model.target import Attachment


def test_a_known_failure_fails_and_an_unexpected_pass_works(samples: ModuleType) -> None:
    told = {outcome: works(samples.record(outcome=outcome)) for outcome in Outcome}
    assert {outcome for outcome, value in told.items() if value is True} == {Outcome.PASSED, Outcome.UNEXPECTED_PASS}
    assert {outcome for outcome, value in told.items() if value is None} == {
        Outcome.UNSUPPORTED,
        Outcome.NOT_RUN,
        Outcome.INFRA,
        Outcome.INDETERMINATE,
    }


def test_a_candidate_that_was_not_reached_is_no_part_of_the_route(samples: ModuleType) -> None:
    record = samples.record()
    longer = samples.record(candidates=(*record.candidates, Candidate(name="New", accepted=None)))
    assert route(record) == route(longer)
    assert route(record) != route(samples.record(candidates=record.candidates[1:]))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("AiterBlock", "refused: AITER is off"),
        ("TritonBlock", "accepted"),
        ("ChannelWiseTorch", "not reached"),
        ("Absent", "not among the candidates"),
    ],
)
def test_why_a_kernel_was_passed_over_is_in_vllms_words(samples: ModuleType, name: str, why: str) -> None:
    assert passed_over(samples.record(), name) == why


def test_equal_records_have_no_changes(samples: ModuleType) -> None:
    assert changes(samples.record(), samples.record()) == ()


def test_every_kind_of_change_is_named(samples: ModuleType) -> None:
    before = samples.record(findings=(Finding(rule="r1", symbol="s", message="m"),))
    after = samples.record(
        chosen=None,
        outcome=Outcome.CRASHED,
        candidates=(
            Candidate(name="TritonBlock", accepted=False, reason="no"),
            Candidate(name="AiterBlock", accepted=False, reason="AITER is not on"),
            Candidate(name="New", accepted=False, reason="too new"),
        ),
        findings=(Finding(rule="r2", symbol="s", message="m"),),
        expected="something",
        attachment=Attachment.ATTACHED,
    )
    assert changes(before, after) == (
        "chosen: TritonBlock -> no kernel",
        "outcome: passed -> crashed",
        "ChannelWiseTorch is no longer a candidate",
        "New is a new candidate (refused: too new)",
        "AiterBlock: other words for the reason: 'AITER is off' -> 'AITER is not on'",
        "TritonBlock: accepted -> refused: no",
        "the candidates are asked in another order",
        "no longer breaks r1 at s",
        "now breaks r2 at s",
        "the matrix expects something else of the cell",
        "target: simulated -> attached",
    )


def test_only_a_row_with_both_sides_can_be_rerouted(samples: ModuleType) -> None:
    one, other = samples.record(), samples.record(chosen="Other")
    rows = [
        Row(id="x", verdict=Verdict.FIXED, why="", before=a, after=b)
        for a, b in ((one, other), (one, one), (None, one))
    ]
    assert [is_rerouted(row) for row in rows] == [True, False, False]
