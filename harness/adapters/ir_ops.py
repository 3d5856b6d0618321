"""IR operators: the order of implementations that the platform gives an operator."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_ir_op(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
