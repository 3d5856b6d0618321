"""Parameters of vLLM's layers: how they are created, and the layout that loading leaves them in."""

import pytest

from harness.model.record import Outcome


@pytest.mark.cells("weights")
def test_parameters_are_as_expected(cell_record):
    assert cell_record.outcome is Outcome.PASSED, f"{cell_record.reason}\n{cell_record.reproduce}"
