"""Unquantized GEMM: which kernel vLLM's dispatch reaches for a weight [N, K] and M tokens."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_unquantized(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
