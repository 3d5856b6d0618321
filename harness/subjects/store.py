"""Folders of the cache that are complete or absent, never half written, whatever dies in between.

In: the folder wanted and how to build it. Out: the folder. Must not know what is in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from harness.model.errors import SubjectError, located
from harness.subjects.progress import Progress, shown


def once(folder: Path, build: Callable[[Path], Path], progress: Progress) -> Path:
    """The folder, built first if it is not there; of two processes at once one builds and the other waits.

    A folder that is there costs no lock and no write, so a read-only cache serves what it has.

    Args:
        folder: the folder wanted.
        build: given an empty scratch folder beside it, makes the content there and returns the folder (inside the
            scratch folder) that becomes ``folder`` by one rename. Its exceptions pass through; nothing stays.
        progress: is told when another process is waited for.

    Raises:
        SubjectError: the cache cannot be written.
    """
    if folder.is_dir():
        return folder
    # A fixed name, guarded by the lock: what a killed process left is found and removed by the next one.
    scratch = folder.with_name(f".{folder.name}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _held(folder.with_name(f".{folder.name}.lock"), folder.name, progress):
            if not folder.is_dir():
                _emptied(scratch)
                try:
                    build(scratch).rename(folder)
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        hint = "Free space there, or choose another cache folder."
        raise SubjectError(located(str(folder), "the cache cannot be written", got=str(error), hint=hint)) from error
    return folder


def _emptied(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()


@contextmanager
def _held(path: Path, what: str, progress: Progress) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with shown(progress, None, f"waiting for another process that prepares {what}"):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
