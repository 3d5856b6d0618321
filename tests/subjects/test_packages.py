from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.model.errors import SubjectError
from harness.subjects.packages import containing_folder, folder_with_package

Write = Callable[[Path, Mapping[str, bytes]], Path]
NAME = "gfxloop_no_such_package"


def test_an_installed_package_is_found_without_running_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(write(tmp_path, {f"{NAME}/__init__.py": b"raise SystemExit"}))
    assert containing_folder("--subject installed", NAME, "Install it.") == tmp_path
    assert NAME not in sys.modules


def test_a_package_that_is_not_installed_is_told_with_what_to_do() -> None:
    with pytest.raises(SubjectError, match=f"^--subject installed: {NAME} is not installed.* Install it\\.$"):
        containing_folder("--subject installed", NAME, "Install it.")


def test_a_bare_folder_of_that_name_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAME).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SubjectError, match="is not installed"):
        containing_folder("--subject installed", NAME, "")


def test_a_stand_in_in_memory_is_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NAME, types.ModuleType(NAME))
    with pytest.raises(SubjectError, match="is not installed"):
        containing_folder("--subject installed", NAME, "")


def test_a_relative_folder_becomes_absolute(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"sub/vllm/__init__.py": b""})
    monkeypatch.chdir(tmp_path)
    assert folder_with_package("--subject", "vllm", Path("sub")) == tmp_path / "sub"


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("gone", "got 'no such folder'"),
        (".", "got 'no vllm/__init__.py in "),
        ("sub/vllm/__init__.py", "got 'no such folder'"),
        ("sub/vllm", "Give the folder above it: path:"),
        ("bare", "Give the folder that contains vllm/."),
    ],
)
def test_a_folder_without_the_package_is_refused(folder: str, says: str, write: Write, tmp_path: Path) -> None:
    write(tmp_path, {"sub/vllm/__init__.py": b"", "bare/vllm/x.py": b""})
    with pytest.raises(SubjectError) as caught:
        folder_with_package("--subject", "vllm", tmp_path / folder)
    assert says in str(caught.value)
