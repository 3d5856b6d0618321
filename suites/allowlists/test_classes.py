"""What each expert class and each attention backend says it supports, asked of the class itself."""

import pytest

from harness.model.record import Outcome


@pytest.mark.cells("linear_kernel", "experts", "attention_backend")
def test_class_claims_what_it_has(cell_record):
    assert cell_record.outcome is Outcome.PASSED, f"{cell_record.reason}\n{cell_record.reproduce}"
