"""The Python tree in a wheel, for a release that has no source distribution.

In: a wheel on disk. Out: its ``vllm`` package and metadata in a new folder, without the compiled modules, or an error
and no folder at all. Must not trust names or sizes.
"""

from __future__ import annotations

import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from harness.model.errors import SubjectError, located
from harness.subjects.archive import Bounds
from harness.subjects.progress import Progress, shown

_COMPILED = (".so", ".a", ".pyd", ".dll")
"""A simulated target declares these modules itself; they are nine tenths of a wheel."""

_BOUNDS = Bounds()


def extract_wheel(archive: Path, into: Path, progress: Progress, bounds: Bounds = _BOUNDS) -> None:
    """Unpack what is Python or data of ``archive`` into the new folder ``into``.

    Raises:
        SubjectError: a member that would leave the folder; more than ``bounds``; a damaged archive. ``into`` does not
            exist afterwards.
    """
    try:
        _extract(archive, into, progress, bounds)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


def _extract(archive: Path, into: Path, progress: Progress, bounds: Bounds) -> None:
    try:
        with zipfile.ZipFile(archive) as file:
            members = [one for one in file.infolist() if not one.is_dir() and not one.filename.endswith(_COMPILED)]
            _check(archive, members, bounds)
            into.mkdir()
            with shown(progress, sum(one.file_size for one in members), f"unpacking {archive.name}"):
                for member in members:
                    file.extract(member, into)
                    progress.advance(member.file_size)
    except (zipfile.BadZipFile, NotImplementedError, OSError, RuntimeError, ValueError, zlib.error) as error:
        raise SubjectError(located(archive.name, "cannot be read", got=str(error), hint="Fetch it again.")) from error


def _check(archive: Path, members: list[zipfile.ZipInfo], bounds: Bounds) -> None:
    if len(members) > bounds.members or sum(one.file_size for one in members) > bounds.total_bytes:
        expected = f"at most {bounds.members} members of {bounds.total_bytes} bytes in all"
        raise SubjectError(located(archive.name, "the archive is too large", expected=expected))
    for member in members:
        path = PurePosixPath(member.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
            where, hint = f"{archive.name}: member {member.filename!r}", "Do not trust this archive."
            raise SubjectError(located(where, "the member leaves the folder", expected="a relative path", hint=hint))
