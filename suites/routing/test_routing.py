"""What vLLM chooses, and the facts, gates and maps behind it: cells against the invariants and the expectations."""

import pytest

from harness.model.record import Outcome


@pytest.mark.cells("linear", "moe", "attention", "unquantized_gemm", "ir_op")
def test_choice_is_as_expected(cell_record):
    assert cell_record.outcome is Outcome.PASSED, f"{cell_record.reason}\n{cell_record.reproduce}"


@pytest.mark.cells("platform", "aiter_gate", "tuned_gate", "switch", "quantization", "dtype", "defaults")
def test_fact_is_as_expected(cell_record):
    assert cell_record.outcome is Outcome.PASSED, f"{cell_record.reason}\n{cell_record.reproduce}"
