from __future__ import annotations

from types import ModuleType

from harness.model.record import Finding, Outcome
from harness.report.faults import failures, known, undecided


def test_one_cause_is_one_entry(samples: ModuleType) -> None:
    (fault,) = failures(samples.realistic(faulty=True).records)
    assert (fault.rule, fault.symbol, fault.cells) == ("isa_has_instruction", "vllm.TorchScaledMM.is_supported", 36)
    assert (fault.targets, fault.where) == ("gfx1100", "kernel fp8_block, fp8_static")
    assert fault.outcomes == ((Outcome.FAILED, 36),)
    assert fault.messages == (("gfx1100 has no FP8 matrix instruction, but TorchScaledMM was chosen", 36),)
    assert fault.reproduce == f"gfxloop reproduce {fault.example}"


def test_a_clean_run_has_none(samples: ModuleType) -> None:
    assert failures(samples.realistic(faulty=False).records) == ()


def test_a_bad_record_without_a_finding_is_grouped_by_outcome_and_kernel(samples: ModuleType) -> None:
    records = [samples.record(str(n), outcome=Outcome.CRASHED, reason=f"signal {n}") for n in range(5)]
    (fault,) = failures(records)
    assert (fault.rule, fault.symbol, fault.cells, fault.more_messages) == ("crashed", "fp8_block", 5, 2)


def test_one_record_with_two_findings_of_one_rule_is_one_cell(samples: ModuleType) -> None:
    twice = tuple(Finding(rule="r", symbol="s", message=message) for message in "ab")
    (fault,) = failures([samples.record(outcome=Outcome.FAILED, findings=twice)])
    assert fault.cells == 1
    assert [message for message, _ in fault.messages] == ["a", "b"]


def test_known_failures_stand_apart(samples: ModuleType) -> None:
    finding = (Finding(rule="r", symbol="s", message="m"),)
    records = [
        samples.record("a", outcome=Outcome.EXPECTED_FAILURE),
        samples.record("b", findings=finding),
        samples.record("c", outcome=Outcome.FAILED, findings=finding),
        samples.record("d"),
    ]
    assert [(fault.rule, fault.cells) for fault in known(records)] == [("expected_failure", 1), ("r", 1)]
    assert [(fault.rule, fault.example) for fault in failures(records)] == [("r", "c")]


def test_undecided_cells_are_grouped_by_reason(samples: ModuleType) -> None:
    records = [
        samples.record("a", outcome=Outcome.UNSUPPORTED, reason="old"),
        samples.record("b", outcome=Outcome.UNSUPPORTED, reason="old"),
        samples.record("c", outcome=Outcome.INDETERMINATE, reason="who knows"),
        samples.record("d", outcome=Outcome.FAILED),
    ]
    told = [(group.outcome, group.reason, group.cells) for group in undecided(records)]
    assert told == [(Outcome.INDETERMINATE, "who knows", 1), (Outcome.UNSUPPORTED, "old", 2)]
