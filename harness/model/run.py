"""A run: its manifest, its records, and the comparison of two runs."""

from __future__ import annotations

from enum import StrEnum

from harness.model.record import SCHEMA, Frozen, Record
from harness.model.subject import Subject


class Manifest(Frozen):
    """What a run directory says about itself (``manifest.json``)."""

    schema_version: int = SCHEMA
    gfxloop: str
    """Version of the harness."""
    harness_digest: str
    """blake2b of the harness's own source, so that a change of the harness is told from a change of the subject."""
    started: str
    """UTC, ISO 8601."""
    finished: str | None
    """None while the run is going on, or when it was cut off."""
    command: str
    subject: Subject
    matrix_digest: str
    targets: tuple[str, ...]
    """Names of the targets with ``simulated`` or ``attached`` and where the facts come from."""
    tiers: tuple[str, ...]
    versions: dict[str, str]
    """python, torch, triton, ... as the workers import them."""
    cells: int
    """How many records a complete run has."""


class Run(Frozen):
    """A run read back from its directory."""

    manifest: Manifest
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    """What reading had to forgive: a truncated last line, a duplicate, a missing record."""


class Verdict(StrEnum):
    """One cell compared between a baseline and a candidate."""

    UNCHANGED = "unchanged"
    REGRESSED = "regressed"
    FIXED = "fixed"
    REROUTED = "rerouted"
    IMPROVED = "improved"
    WITHIN_NOISE = "within_noise"
    KNOWN = "known"
    FLAKY = "flaky"
    NOT_COMPARABLE = "not_comparable"
    UNKNOWN = "unknown"
    ADDED = "added"
    REMOVED = "removed"


class Row(Frozen):
    """One cell of a comparison. ``before`` is None for an added cell, ``after`` for a removed one."""

    id: str
    verdict: Verdict
    why: str
    before: Record | None
    after: Record | None


class Comparison(Frozen):
    """Every record of either run in exactly one row."""

    baseline: Manifest
    candidate: Manifest
    rows: tuple[Row, ...]
    differs: tuple[str, ...] = ()
    """Facts other than the subject's tree in which the two runs differ, one sentence each."""
