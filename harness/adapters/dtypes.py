"""Dtype maps: what each of vLLM's tables makes of a dtype."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_dtype(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
