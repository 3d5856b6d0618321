from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model.errors import SubjectError
from harness.subjects.archive import Bounds, extract


def _header(name: str, kind: bytes, link: str = "", **extended: str) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type = kind
    header.linkname = link
    header.pax_headers = extended
    return header


GOOD = {"d/file": b"good"}
EVIL: dict[str, dict[str, Any]] = {
    "../out": {"../out": b"x"},
    "d/../../out": {"d/../../out": b"x"},
    "/out": {"/out": b"x"},
    "absolute-link": {"absolute-link": _header("absolute-link", tarfile.SYMTYPE, "/etc/passwd")},
    "d/link-out": {"d/link-out": _header("d/link-out", tarfile.SYMTYPE, "../../out")},
    "hard-out": {"hard-out": _header("hard-out", tarfile.LNKTYPE, "../out")},
    "hard-nowhere": {"hard-nowhere": _header("hard-nowhere", tarfile.LNKTYPE, "nowhere")},
    "char": {"char": _header("char", tarfile.CHRTYPE)},
    "block": {"block": _header("block", tarfile.BLKTYPE)},
    "pipe": {"pipe": _header("pipe", tarfile.FIFOTYPE)},
    # A file that is written through a link of the archive, below it and onto it.
    "here/out": {"here": _header("here", tarfile.SYMTYPE, "d"), "here/out": b"x"},
    "./d/onto": {"d/onto": _header("d/onto", tarfile.SYMTYPE, "file"), "./d/onto": b"x"},
    # Two links, each harmless when it is made, that together leave the folder.
    "d/one": {
        "d/one": _header("d/one", tarfile.SYMTYPE, "two/.."),
        "d/two": _header("d/two", tarfile.SYMTYPE, ".."),
    },
    "d": {"d": b"a file where a folder is"},
    "n" * 300: {"n" * 300: b"a name that no file system takes"},
    "nul\0name": {"nul": _header("nul", tarfile.REGTYPE, path="nul\0name")},
}


@pytest.mark.parametrize("member", EVIL)
def test_a_member_that_leaves_the_folder_or_is_no_file_is_named_and_nothing_stays(
    member: str, tmp_path: Path, pack: Callable[..., bytes], progress: Any
) -> None:
    archive = tmp_path / "evil.tar.gz"
    archive.write_bytes(pack({**GOOD, **EVIL[member]}))
    with pytest.raises(SubjectError) as caught:
        extract(archive, tmp_path / "into", progress)
    assert f"evil.tar.gz: member {member!r}" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.tar.gz"]
    assert progress.open == 0


def test_files_folders_and_links_that_stay_inside_are_unpacked(
    tmp_path: Path, pack: Callable[..., bytes], progress: Any
) -> None:
    archive = tmp_path / "good.tar.gz"
    links = {
        "d/soft": _header("d/soft", tarfile.SYMTYPE, "../d/file"),
        "hard": _header("hard", tarfile.LNKTYPE, "d/file"),
        "e": _header("e", tarfile.DIRTYPE),
    }
    archive.write_bytes(pack({**GOOD, **links}))
    extract(archive, tmp_path / "into", progress)
    assert [(tmp_path / "into" / name).read_bytes() for name in ("d/file", "d/soft", "hard")] == [b"good"] * 3
    assert (tmp_path / "into" / "e").is_dir()
    assert progress.totals == [archive.stat().st_size]
    assert 0 < progress.seen[0] <= archive.stat().st_size


@pytest.mark.parametrize("bounds", [Bounds(total_bytes=7), Bounds(members=1)])
def test_an_archive_above_a_bound_is_refused_before_the_member_is_written(
    bounds: Bounds, tmp_path: Path, pack: Callable[..., bytes], progress: Any
) -> None:
    archive = tmp_path / "bomb.tar.gz"
    archive.write_bytes(pack({"a": b"1234", "b": b"5678"}))
    with pytest.raises(SubjectError, match=r"member 'b': the archive is too large \(expected at most"):
        extract(archive, tmp_path / "into", progress, bounds)
    extract(archive, tmp_path / "exactly", progress, Bounds(total_bytes=8, members=2))


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_cut_archive_is_told_and_nothing_stays(
    keep: int, tmp_path: Path, pack: Callable[..., bytes], progress: Any
) -> None:
    archive = tmp_path / "cut.tar.gz"
    whole = pack({"a": bytes(range(256)), "b": bytes(reversed(range(256)))})
    archive.write_bytes(whole[:keep])
    assert keep < len(whole)
    with pytest.raises(SubjectError, match=r"cut\.tar\.gz.*cannot be read"):
        extract(archive, tmp_path / "into", progress)
    assert not (tmp_path / "into").exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(place=st.integers(0, 4095), byte=st.integers(0, 255), mode=st.sampled_from(["w", "w:gz"]))
def test_any_damaged_byte_ends_in_files_inside_or_in_one_clear_error(
    place: int, byte: int, mode: str, tmp_path: Path, pack: Callable[..., bytes], progress: Any
) -> None:
    link = _header("d/soft", tarfile.SYMTYPE, "file")
    content = bytearray(pack({"d/file": b"good", "d/soft": link, "x" * 120: b"long"}, mode))
    content[place % len(content)] = byte
    folder = tmp_path / "example"
    folder.mkdir()
    archive = folder / "a.tar"
    archive.write_bytes(content)
    try:
        extract(archive, folder / "into", progress)
    except SubjectError:
        assert not (folder / "into").exists()
    else:
        outside = [path for path in (folder / "into").rglob("*") if not path.resolve().is_relative_to(folder / "into")]
        assert outside == []
    finally:
        shutil.rmtree(folder)
