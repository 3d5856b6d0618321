"""What a simulation was asked and could not know, noted as it happens.

vLLM often swallows exceptions (``except Exception: return False``), so a stand-in that only raised would turn
"cannot tell" into an answer. Every limit is therefore noted here first, and the probe reads the notes of its cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.model.deed import Deeds


class SimulationLimit(RuntimeError):
    """Device code was called, or a fact was asked for, that the simulation does not have."""


@dataclass(frozen=True)
class PrivateImport:
    """An import of a module that belongs to another platform, and who asked."""

    module: str
    importer: str
    """``vllm/…/fp8_utils.py:884 in w8a8_triton_block_scaled_mm``, relative to the subject's tree."""


@dataclass(frozen=True)
class Lookup:
    """A question to a stand-in and the answer it gave. ``source`` is a table's ``file:line``, or empty."""

    question: str
    answer: str
    source: str = ""


@dataclass
class Journal:
    """Append-only notes of one worker."""

    unknown: list[str] = field(default_factory=list)
    """Questions that were answered by an assumption; asking again under the other one shows what hangs on it."""
    unanswerable: list[str] = field(default_factory=list)
    """Questions that no assumption answers, device code that was called among them."""
    private: list[PrivateImport] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    deeds: Deeds = field(default_factory=Deeds)
    """What the subject did to its process."""

    def limit(self, what: str, advice: str = "") -> SimulationLimit:
        """Note that ``what`` was called, with what a person can do about it, and give back the exception to raise."""
        self.unanswerable.append(f"what {what} does" + (f" ({advice})" if advice else ""))
        return SimulationLimit(f"{what}: device code, not available in a simulation")

    @contextmanager
    def slice(self) -> Iterator[Journal]:
        """A journal that, when the block ends, holds only what was noted inside it."""
        part = Journal()
        marks = [len(notes) for notes in self._lists()]
        try:
            yield part
        finally:
            for mine, theirs, mark in zip(self._lists(), part._lists(), marks, strict=True):
                theirs.extend(mine[mark:])

    def _lists(self) -> list[list[Any]]:
        return [self.unknown, self.unanswerable, self.private, self.lookups, *vars(self.deeds).values()]
