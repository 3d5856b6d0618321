"""The cache of observations, by content: what a worker saw is kept under a digest of everything that can change it.

In: a folder. Out: observations by job and cell. A job's digest covers the harness's source, the subject's identity,
the facts of the target, the environment and every installed distribution; a cell's covers its request. Nothing is
ever looked up by name or time. Files are compressed, replaced atomically, and the oldest go when there are many.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import astuple
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from filelock import FileLock

from harness.model.cell import Cell
from harness.model.record import Ended, Observation
from harness.model.subject import Subject
from harness.model.target import Target

_KEEP = 600
"""Files kept: about ten full runs. One file is some 20 kB."""

_PASSING = (Ended.DIED, Ended.TIMED_OUT)
"""What may be the machine's doing, not the subject's: never kept."""


class ObservationCache:
    """Observations on disk. ``None`` as the folder switches it off."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, job: str) -> dict[str, Observation]:
        """What is kept for a job, by cell digest; a file that cannot be read counts as absent."""
        if self._folder is None:
            return {}
        try:
            body = json.loads(gzip.decompress((self._folder / f"{job}.json.gz").read_bytes()))
            return {key: Observation.model_validate(value) for key, value in body.items()}
        except (OSError, EOFError, zlib.error, ValueError, RecursionError, AttributeError):  # Attribute: no object
            return {}

    def save(self, job: str, seen: Mapping[str, Observation]) -> None:
        """Keep ``seen`` beside what is there already."""
        keep = {key: value for key, value in seen.items() if value.ended not in _PASSING}
        if self._folder is None or not keep:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self._folder / "save.lock"):  # of two writers of one job, neither may lose what the other keeps
            merged = {**self.load(job), **keep}
            body = {key: value.model_dump(mode="json", exclude_defaults=True) for key, value in merged.items()}
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".tmp")
            with os.fdopen(handle, "wb") as file:
                file.write(gzip.compress(json.dumps(body).encode(), 1))
            Path(name).replace(self._folder / f"{job}.json.gz")
            self._prune(self._folder)

    @staticmethod
    def _prune(folder: Path) -> None:
        files = sorted(folder.glob("*.json.gz"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[_KEEP:]:
            path.unlink(missing_ok=True)


def job_digest(subject: Subject, target: Target, env: Mapping[str, str], presence: Mapping[str, bool]) -> str:
    """Digest of everything that a job's observations hang on, but the cells."""
    parts = (
        harness_digest(),
        installed_digest(),
        subject.identity,
        astuple(target),
        sorted(env.items()),
        sorted(presence.items()),
    )
    return _digest(repr(parts))


def cell_digest(cell: Cell) -> str:
    """Digest of one request."""
    kernel = cell.kernel
    request = (
        cell.id,
        kernel.surface,
        kernel.family,
        sorted(kernel.scheme.items()),
        kernel.needs,
        cell.layer and astuple(cell.layer),
    )
    return _digest(repr(request))


@cache
def harness_digest() -> str:
    """Digest of the harness's own source and tables."""
    root = Path(__file__).parent.parent
    hashed = hashlib.blake2b(digest_size=16)
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.tsv")]):
        hashed.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()


@cache
def installed_digest() -> str:
    """Digest of Python and the installed distributions, by name and version: a worker imports many of them."""
    # str: a broken distribution has no name
    found = sorted(f"{one.metadata['Name']}=={one.version}" for one in distributions())
    return _digest(repr((sys.version, found)))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
