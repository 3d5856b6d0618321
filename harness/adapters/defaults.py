"""Engine defaults: what the platform decides for a configuration before a model is loaded."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_default(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
