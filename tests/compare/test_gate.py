from __future__ import annotations

from types import ModuleType

import pytest

from harness.compare.compare import compare
from harness.compare.gate import exit_code_of_check, exit_code_of_compare, judge_check, judge_compare
from harness.model.record import Outcome


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_bad_outcome_among_good_ones_fails_the_check(samples: ModuleType, outcome: Outcome) -> None:
    records = [samples.record("x"), samples.record("y", outcome=outcome)]
    assert exit_code_of_check(records) == int(outcome.is_bad)
    assert judge_check(records).reasons == ((f"1 {outcome.value}",) if outcome.is_bad else ())


def test_no_record_is_never_a_success() -> None:
    assert judge_check([]).exit_code == 3


@pytest.mark.parametrize("outcome", [Outcome.NOT_RUN, Outcome.INFRA, Outcome.UNSUPPORTED, Outcome.INDETERMINATE])
def test_a_run_in_which_nothing_was_decided_is_never_a_success(samples: ModuleType, outcome: Outcome) -> None:
    assert exit_code_of_check([samples.record(outcome=outcome)]) == 4


def test_missing_records_fail_the_check(samples: ModuleType) -> None:
    gate = judge_check([samples.record()], cells=3)
    assert (gate.exit_code, gate.passed, gate.reasons) == (1, False, ("2 of 3 records are missing",))


def test_a_regression_blocks_and_a_reroute_a_fix_and_a_known_failure_do_not(samples: ModuleType) -> None:
    failed = {"outcome": Outcome.FAILED}
    before = samples.run(
        samples.record("a"), samples.record("b"), samples.record("c", **failed), samples.record("d", **failed)
    )
    quiet = samples.run(
        samples.record("a"), samples.record("b", chosen="X"), samples.record("c"), samples.record("d", **failed)
    )
    assert exit_code_of_compare(compare(before, quiet)) == 0
    loud = samples.run(
        samples.record("a", **failed), samples.record("b"), samples.record("c"), samples.record("d", **failed)
    )
    assert judge_compare(compare(before, loud)).reasons == ("1 regressed",)
    assert exit_code_of_compare(compare(before, loud)) == 1


def test_a_regression_that_the_matrix_lists_as_known_does_not_block(samples: ModuleType) -> None:
    before = samples.run(samples.record(outcome=Outcome.UNEXPECTED_PASS))
    after = samples.run(samples.record(outcome=Outcome.EXPECTED_FAILURE))
    assert exit_code_of_compare(compare(before, after)) == 0


def test_a_removed_record_that_worked_blocks_only_where_both_asked_for_it(samples: ModuleType) -> None:
    before = samples.run(samples.record("a"), samples.record("b"))
    silent = samples.run(samples.record("a"))
    assert judge_compare(compare(before, silent)).reasons == (
        "1 removed that worked, although both runs asked for the same cells",
    )
    for declared in ({"matrix_digest": "m2"}, {"targets": ("cpu",)}, {"tiers": ("guard",)}):
        assert exit_code_of_compare(compare(before, samples.run(samples.record("a"), **declared))) == 0


def test_a_removed_record_that_failed_does_not_block(samples: ModuleType) -> None:
    before = samples.run(samples.record("a"), samples.record("b", outcome=Outcome.FAILED))
    assert exit_code_of_compare(compare(before, samples.run(samples.record("a")))) == 0


def test_a_cut_off_candidate_blocks_and_a_cut_off_baseline_does_not(samples: ModuleType) -> None:
    whole, cut = (
        samples.run(samples.record("a"), cells=1),
        samples.run(samples.record("a"), cells=5, matrix_digest="m2"),
    )
    assert judge_compare(compare(whole, cut)).reasons == ("4 of 5 records of the candidate are missing",)
    assert exit_code_of_compare(compare(cut, whole)) == 0


def test_two_empty_runs_are_never_a_success(samples: ModuleType) -> None:
    assert exit_code_of_compare(compare(samples.run(), samples.run())) == 3
