from __future__ import annotations

from types import ModuleType

from harness.model.cell import Surface
from harness.model.record import Finding, Outcome
from harness.report.causes import Wording
from harness.report.faults import failures, known


def test_one_cause_is_one_entry(samples: ModuleType) -> None:
    (fault,) = failures(samples.realistic(faulty=True).records)
    assert (fault.rule, fault.symbol, fault.cells) == ("isa_has_instruction", "vllm.TorchScaledMM.is_supported", 36)
    assert (fault.targets, fault.where) == ("gfx1100", "")
    assert fault.outcomes == ((Outcome.FAILED, 36),)
    assert fault.messages == (Wording("gfx1100 has no FP8 matrix instruction, but TorchScaledMM was chosen", 36, 1),)
    assert (fault.more_messages, fault.words) == (0, "")
    assert fault.reproduce == f"gfxloop reproduce {fault.example}"


def test_a_clean_run_has_none(samples: ModuleType) -> None:
    assert failures(samples.realistic(faulty=False).records) == ()


def test_a_bad_record_without_a_finding_is_grouped_by_outcome_and_kernel(samples: ModuleType) -> None:
    reasons = ("signal 1", "signal 2", "out of memory", "no reply", "gone")
    records = [samples.record(text, outcome=Outcome.CRASHED, reason=text) for text in reasons]
    (fault,) = failures(records)
    assert (fault.rule, fault.symbol, fault.cells, fault.more_messages) == ("crashed", "fp8_block", 5, 1)
    assert fault.messages[0] == Wording("signal 1", 2, 2)


def test_one_symbol_on_two_surfaces_is_two_entries(samples: ModuleType) -> None:
    finding = (Finding(rule="r", symbol="s", message="m"),)
    records = [
        samples.record("a", outcome=Outcome.FAILED, findings=finding),
        samples.record("b", outcome=Outcome.FAILED, findings=finding, surface=Surface.ALLOWLIST),
    ]
    assert [fault.surface for fault in failures(records)] == [Surface.ALLOWLIST, Surface.LINEAR]


def test_the_reason_is_told_where_no_message_tells_it(samples: ModuleType) -> None:
    finding = (Finding(rule="r", symbol="s", message="m"),)
    (fault,) = failures([samples.record(outcome=Outcome.FAILED, findings=finding, reason="vLLM said so")])
    assert fault.words == "vLLM said so"


def test_one_record_with_two_findings_of_one_rule_is_one_cell(samples: ModuleType) -> None:
    twice = tuple(Finding(rule="r", symbol="s", message=message) for message in "ab")
    (fault,) = failures([samples.record(outcome=Outcome.FAILED, findings=twice)])
    assert fault.cells == 1
    assert [message.example for message in fault.messages] == ["a", "b"]


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
