"""Write a run directory so that a kill at any moment loses at most the record being written.

In: a folder, the manifest, and records one at a time. Out: ``manifest.json`` and one shard. It never changes a shard
that it did not create, and never a folder that is not a run directory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.model.errors import RunDirectoryError, located
from harness.model.record import Record
from harness.model.run import Manifest
from harness.records.atomic import TEMPORARY, write_atomically
from harness.records.layout import MANIFEST, run_identity, shard_name
from harness.records.reader import read_manifest


def utc_now() -> str:
    """The time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def utc_today() -> date:
    """The day in UTC, against which known failures expire."""
    return datetime.now(UTC).date()


class RunWriter:
    """Context manager that appends records to one shard of a run directory.

    Several writers may share a directory, in one machine or after copying, when their runs have the same identity and
    each has a shard id of its own. Leaving the block normally stamps the manifest as finished; an exception leaves it
    unfinished, which is what happened. One writer belongs to one thread.
    """

    def __init__(self, directory: Path, manifest: Manifest, shard: str, clock: Callable[[], str] = utc_now) -> None:
        """Prepare; nothing is written before the block is entered.

        Args:
            directory: absent, empty, or a run directory of a run with the same identity.
            manifest: what the run says about itself.
            shard: id unique among the writers of this directory; where records contradict each other, the shard whose
                name sorts last wins.
            clock: gives the time of ``finished``, UTC, ISO 8601.
        """
        self._directory = directory
        self._manifest = manifest
        self._path = directory / shard_name(shard, run_identity(manifest))
        self._clock = clock
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Create the folder, its manifest and the shard.

        Raises:
            RunDirectoryError: the folder holds something else, another run, or this shard.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            manifest = self._joined()
            if self._path.exists():
                raise FileExistsError(errno.EEXIST, "exists", str(self._path))
            write_atomically(self._directory / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o644)
        except FileExistsError as error:
            hint = "Choose another folder, or delete this one: each run has its own."
            raise RunDirectoryError(located(str(error.filename), "exists already", hint=hint)) from error
        except OSError as error:
            what = f"cannot be made a run directory: {error.strerror or error}"
            raise RunDirectoryError(located(str(self._directory), what, hint="Choose another folder.")) from error
        return self

    def write(self, record: Record) -> None:
        """Append one record as one line, in one system call: once this returns, a kill of the process cannot lose it.

        Raises:
            RunDirectoryError: the writer is closed, or the file system refuses; the shard stays whole.
        """
        if self._descriptor < 0:
            raise RunDirectoryError(located(str(self._path), "is not open", hint="Write inside the with block."))
        line = (record.model_dump_json() + "\n").encode()
        end = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
            problem = "" if written == len(line) else f"only {written} of {len(line)} bytes fitted"
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            # A torn line followed by further records would make the whole shard unreadable.
            os.ftruncate(self._descriptor, end)
            hint = "Free some space and run again; the records so far are kept."
            raise RunDirectoryError(located(str(self._path), f"record not written: {problem}", hint=hint))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the shard and, after a normal end, stamp ``finished`` into the manifest."""
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if kind is None:
            # Read again: another writer may have joined since.
            manifest = read_manifest(self._directory).model_copy(update={"finished": self._clock()})
            write_atomically(self._directory / MANIFEST, manifest.model_dump_json(indent=2) + "\n")

    def _joined(self) -> Manifest:
        """The manifest to write: this run's own, widened by that of the run that lies in the folder already."""
        names = [entry.name for entry in self._directory.iterdir() if not entry.name.startswith(TEMPORARY)]
        if not names:
            return self._manifest
        if not (self._directory / MANIFEST).is_file():
            what = f"neither empty nor a run directory: it holds {min(names)!r} but no {MANIFEST}"
            raise RunDirectoryError(located(str(self._directory), what, hint="Choose an empty folder."))
        present = read_manifest(self._directory)
        if run_identity(present) != run_identity(self._manifest):
            what = f"holds another run ({present.subject.options}, started {present.started})"
            hint = "Runs are merged only when subject, matrix, harness and versions are equal. Choose another folder."
            raise RunDirectoryError(located(str(self._directory), what, hint=hint))
        update = {
            "targets": tuple(dict.fromkeys(present.targets + self._manifest.targets)),
            "tiers": tuple(dict.fromkeys(present.tiers + self._manifest.tiers)),
            "cells": max(present.cells, self._manifest.cells),
            "started": min(present.started, self._manifest.started),
        }
        return self._manifest.model_copy(update=update)
