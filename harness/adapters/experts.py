"""Expert classes of MoE: which requests each class says it supports."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_experts(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
