"""Weights: what vLLM's layers make of parameters when they are created and processed."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_weights(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
