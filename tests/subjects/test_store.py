from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from harness.model.errors import SubjectError
from harness.subjects.store import once


def _build(scratch: Path) -> Path:
    (scratch / "made").mkdir()
    (scratch / "made" / "file").write_text("x")
    (scratch / "download").write_text("not wanted afterwards")
    return scratch / "made"


def _visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_folder_is_built_once_and_then_only_found(tmp_path: Path, progress: Any) -> None:
    built: list[Path] = []

    def build(scratch: Path) -> Path:
        built.append(scratch)
        return _build(scratch)

    for _ in range(2):
        assert once(tmp_path / "deep" / "a", build, progress) == tmp_path / "deep" / "a"
    assert len(built) == 1
    assert _visible(tmp_path / "deep") == ["a"]
    assert _visible(tmp_path / "deep" / "a") == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_build_that_fails_leaves_nothing_and_passes_its_error_on(
    tmp_path: Path, progress: Any, error: type[BaseException]
) -> None:
    def build(scratch: Path) -> Path:
        _build(scratch)
        raise error

    with pytest.raises(error):
        once(tmp_path / "a", build, progress)
    assert _visible(tmp_path) == []


def test_what_a_killed_process_left_is_never_part_of_the_next_build(tmp_path: Path, progress: Any) -> None:
    (tmp_path / ".a.partial" / "made").mkdir(parents=True)
    (tmp_path / ".a.partial" / "made" / "half").write_text("half")
    once(tmp_path / "a", _build, progress)
    assert _visible(tmp_path) == ["a"]
    assert _visible(tmp_path / "a") == ["file"]


def test_a_folder_that_another_process_finished_meanwhile_is_used(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / ".a.lock")
    lock.acquire()

    class OtherFinishes:
        """Its start is called when the lock is found taken: the moment at which the other process finishes."""

        def __init__(self) -> None:
            self.whats: list[str] = []

        def start(self, total: int | None, what: str) -> None:
            self.whats.append(what)
            (tmp_path / "a").mkdir()
            lock.release()

        def advance(self, n: int) -> None:
            raise AssertionError

        def done(self) -> None: ...

    def build(scratch: Path) -> Path:
        raise AssertionError("built twice")

    other = OtherFinishes()
    once(tmp_path / "a", build, other)
    assert other.whats == ["waiting for another process that prepares a"]


def test_a_cache_that_cannot_be_written_is_told_with_the_reason(tmp_path: Path, progress: Any) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SubjectError, match=r"the cache cannot be written \(got .*choose another cache folder"):
        once(tmp_path / "file" / "a", _build, progress)


def test_a_folder_that_is_there_costs_no_lock_and_no_write(tmp_path: Path, progress: Any) -> None:
    (tmp_path / "a").mkdir()
    assert once(tmp_path / "a", _build, progress) == tmp_path / "a"
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]
