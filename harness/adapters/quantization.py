"""Quantization methods: which the platform accepts."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_quantization(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
