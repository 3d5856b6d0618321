"""Faults that were released, and how the harness does on them: what ``gfxloop replay`` reads and prints."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, Field, model_validator

from harness.model.cell import Surface
from harness.model.record import SCHEMA, Frozen, Outcome


def _release(word: str) -> str:
    try:
        return str(Version(word))
    except InvalidVersion as error:
        raise ValueError(f"{word!r} is no version") from error


Release = Annotated[str, AfterValidator(_release)]
"""A version of vLLM that its package index has: ``0.28.0``."""

_Words = Annotated[str, Field(min_length=1)]


class ReplayEntry(Frozen):
    """One fault that was released: where it was, and the releases that had it and mended it."""

    name: _Words
    id: str
    """Pull request or issue that tells of it."""
    file: _Words
    """Below the tree of vLLM: decides which surfaces are asked."""
    symbol: _Words
    """The vLLM symbols at fault, in any punctuation: ``Kernel.is_supported``, ``f/g``."""
    targets: str
    """Free text; the gfx targets and platforms that it names are asked, or all where it names none."""
    fault: _Words
    bad_version: Release
    fixed_version: Release
    kind: str = ""
    date: str = ""
    title: str = ""
    right: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> ReplayEntry:
        if Version(self.bad_version) >= Version(self.fixed_version):
            raise ValueError(f"the fixed version {self.fixed_version} is not later than the bad {self.bad_version}")
        return self


class Caught(StrEnum):
    """What flagged the fault."""

    INVARIANT = "invariant"
    """A rule that holds for any vLLM, or a fault that a probe sees by itself."""
    EXPECTATION = "expectation"
    """A value that matrix.yaml states."""


class Names(StrEnum):
    """How closely evidence points at the fault, closest first."""

    SYMBOL = "symbol"
    """It names the function, or the class where the entry names no more."""
    CLASS = "class"
    """It names the class of the function."""
    SURFACE = "surface"
    """It is on a surface of the fault's file, on its targets."""


class Replayed(Frozen):
    """How the harness does on one entry."""

    name: str
    id: str
    bad: str
    fixed: str
    surfaces: tuple[Surface, ...]
    cells: int
    """How many cells were asked of both releases."""
    d1: bool
    """A check of the bad release flags it, and a check of the fixed release no longer does."""
    d1_by: Caught | None
    d1_names: Names | None
    d2: bool
    """A comparison of the two releases shows a difference."""
    d2_names: Names | None
    false_alarm: bool
    """The fixed release still has a finding of the same rule at the same symbol, for the same kernel elsewhere."""
    evidence: str
    """One line: what caught it, or why nothing did."""
    reproduce: str
    """The command that asks the cell of the evidence of the bad release; empty where there is none."""


class Alarm(Frozen):
    """One finding of a release that no entry of the list explains: a fault nobody listed, or a false alarm."""

    rule: str
    symbol: str
    surface: Surface
    targets: tuple[str, ...]
    cells: int
    message: str
    """Of the first cell."""
    reproduce: str


class ReleaseAlarms(Frozen):
    """The findings of a full check of one release, less those that the list explains."""

    release: str
    cells: int
    outcomes: dict[Surface, dict[Outcome, int]]
    """How many cells of each surface ended how; outcomes that do not occur are left out."""
    findings: int
    """Different findings, by rule, symbol and surface, that the matrix does not except."""
    explained: int
    """How many of these an entry of the list explains."""
    alarms: tuple[Alarm, ...]


class Rate(Frozen):
    """So many of so many."""

    hit: int
    of: int
    named: int
    """How many of the hits name the symbol or its class."""


def _rate(hits: Sequence[Names | None]) -> Rate:
    found = [names for names in hits if names is not None]
    return Rate(hit=len(found), of=len(hits), named=sum(names is not Names.SURFACE for names in found))


class Replay(Frozen):
    """All of ``gfxloop replay``."""

    schema_version: int = SCHEMA
    entries: tuple[Replayed, ...]
    releases: tuple[ReleaseAlarms, ...] = ()
    unasked: dict[str, str] = {}
    """Releases that could not be asked, and why."""

    @property
    def d1(self) -> Rate:
        """Entries that a check of the bad release flags."""
        return _rate([entry.d1_names for entry in self.entries])

    @property
    def d2(self) -> Rate:
        """Entries that a comparison shows."""
        return _rate([entry.d2_names for entry in self.entries])

    @property
    def false_alarms(self) -> int:
        """Entries whose fixed release is still flagged."""
        return sum(entry.false_alarm for entry in self.entries)

    def caught_by(self, what: Caught) -> int:
        """Entries that an invariant, or an expectation, caught."""
        return sum(entry.d1_by is what for entry in self.entries)
