"""Functions for every platform, run with the modules of other platforms blocked; numbers checked where they end."""

import pytest

from harness.model.record import Outcome


@pytest.mark.cells("guard", "import_effect")
def test_guarded_code_and_imports_are_clean(cell_record):
    assert not cell_record.findings, f"{cell_record.reason}\n{cell_record.reproduce}"
    assert cell_record.outcome is Outcome.PASSED, f"{cell_record.reason}\n{cell_record.reproduce}"
