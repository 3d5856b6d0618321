"""Unpacks a tar archive that somebody else made, into a folder that nothing in it can leave.

In: an archive on disk. Out: its files in a new folder, or an error that names the member and no folder at all.
Must not trust names, links, kinds or sizes.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.model.errors import SubjectError, located
from harness.subjects.progress import Progress, shown


@dataclass(frozen=True)
class Bounds:
    """What an archive may hold. vLLM 0.29.0 has 7,715 members of 104 MiB in all."""

    total_bytes: int = 4 << 30
    members: int = 200_000


def extract(archive: Path, into: Path, progress: Progress, bounds: Bounds = Bounds()) -> None:
    """Unpack ``archive`` (tar, plain or compressed) into the new folder ``into``.

    Besides Python's ``data`` filter (which has been fooled by chains of links, CVE-2025-4517): no member lies on or
    below a link of the archive, and at the end every link must still point inside.

    Raises:
        SubjectError: a member that would leave the folder or is no file, folder or link; more than ``bounds``;
            a damaged archive. ``into`` does not exist afterwards.
    """
    try:
        with shown(progress, archive.stat().st_size, f"unpacking {archive.name}"):
            _extract(archive, into, progress, bounds)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


def _extract(archive: Path, into: Path, progress: Progress, bounds: Bounds) -> None:
    links: set[PurePosixPath] = set()
    count = total = read = 0
    try:
        into.mkdir()
        with archive.open("rb") as raw, tarfile.open(fileobj=raw) as tar:
            for member in tar:
                count, total = count + 1, total + member.size
                if count > bounds.members or total > bounds.total_bytes:
                    limit = f"at most {bounds.members} members of {bounds.total_bytes} bytes in all"
                    raise _refused(archive, member.name, "the archive is too large", limit)
                _check_place(archive, member.name, links)
                _write(archive, tar, member, into)
                if member.issym() or member.islnk():
                    links.add(PurePosixPath(member.name))
                progress.advance(raw.tell() - read)
                read = raw.tell()
    # ValueError: a number or a name in a header that is none.
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise SubjectError(located(archive.name, "cannot be read", got=str(error), hint="Fetch it again.")) from error
    _check_links(archive, into, links)


def _write(archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    try:
        tar.extract(member, into, filter="data")
    except tarfile.FilterError as error:
        expected = "files, folders and links that stay inside the folder"
        raise _refused(archive, member.name, str(error), expected) from error
    # KeyError: a hard link to what is not there. ValueError: a name with a zero byte.
    except (KeyError, OSError, ValueError) as error:
        where, hint = f"{archive.name}: member {member.name!r}", "Fetch it again, or free space where it is unpacked."
        raise SubjectError(located(where, "cannot be unpacked", got=str(error), hint=hint)) from error


def _check_place(archive: Path, name: str, links: set[PurePosixPath]) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise _refused(archive, name, "the member leaves the folder", "a relative path without ..")
    if not links.isdisjoint((path, *path.parents)):
        raise _refused(archive, name, "the member is written through a link", "a path without links")


def _check_links(archive: Path, into: Path, links: set[PurePosixPath]) -> None:
    root = os.path.realpath(into)
    for link in sorted(links):
        if not Path(os.path.realpath(into / link)).is_relative_to(root):
            raise _refused(archive, str(link), "the link leaves the folder", "a link that stays inside")


def _refused(archive: Path, member: str, what: str, expected: str) -> SubjectError:
    hint = "Nothing was unpacked; do not trust this archive."
    return SubjectError(located(f"{archive.name}: member {member!r}", what, expected=expected, hint=hint))
