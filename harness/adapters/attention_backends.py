"""Attention backend classes: what each class says it supports."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_attention_backend(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
