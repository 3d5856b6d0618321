"""Importing vLLM: what it does to the process."""

from __future__ import annotations

from harness.adapters.decision import Decision, unsupported
from harness.model.cell import Cell


def decide_import_effect(cell: Cell) -> Decision:
    """Not built yet."""
    return unsupported(cell.kernel.surface)
