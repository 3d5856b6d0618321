from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.model.errors import RunDirectoryError
from harness.records.atomic import write_atomically


def test_replaces_the_content_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_atomically(path, "first")
    write_atomically(path, "sécond\n")
    assert path.read_text(encoding="utf-8") == "sécond\n"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_keeps_the_former_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.md"
    write_atomically(path, "first")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "second")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"absent/report.md: cannot be written: No such file"):
        write_atomically(tmp_path / "absent" / "report.md", "text")


def test_a_lone_surrogate_is_spelt_out(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", "x\udc80y")
    assert (tmp_path / "a").read_text() == "x\\udc80y"
