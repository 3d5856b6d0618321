"""Attention layers: which backend vLLM picks, and why not the others."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_attention(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
