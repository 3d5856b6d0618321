"""MoE layers: which backend vLLM's oracles pick for a quantization scheme and a layer, and why not the others."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_moe(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
