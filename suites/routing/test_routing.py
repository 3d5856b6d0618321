"""Which kernel each layer gets, the platform's facts, and AITER's gates: cells against the matrix's expectations."""

import pytest

from harness.model.record import Outcome


@pytest.mark.cells("linear", "platform", "aiter_gate", "tuned_gate")
def test_decision_is_as_expected(cell_record):
    assert cell_record.outcome is Outcome.PASSED, f"{cell_record.reason}\n{cell_record.reproduce}"
