"""The table of PR #51021: who may be given ``torch._scaled_mm`` on FP8. gfx1100 may not: it gets the next kernel."""

import pytest

from harness.model.record import Outcome


@pytest.mark.cells("allowlist")
def test_platform_is_allowed_or_refused(cell_record):
    assert cell_record.outcome is Outcome.PASSED, f"{cell_record.reason}\n{cell_record.reproduce}"
