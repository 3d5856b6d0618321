from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.model.errors import SubjectError, UsageError
from harness.subjects.aiter import locate

Write = Callable[[Path, Mapping[str, bytes]], Path]
TABLES = {
    "a8w8_tuned_gemm.csv": b"gfx,cu_num\n",
    "a8w8_untuned_gemm.csv": b"M,N,K\n",
    "model_configs/dsv3_tuned.csv": b"gfx\n",
}
PACKAGE = {
    "aiter/__init__.py": b"",
    "aiter/ops/gemm.py": b"",
    "aiter/configs/tuned.csv": b"a\n",
    "aiter/configs/x.json": b"{}",
}
CONFIGS = Path(__file__).parents[3] / "shared" / "aiter-configs"


@pytest.mark.parametrize("spec", ["none", "stand-in"])
def test_no_aiter_and_the_stand_in_have_no_digest_and_no_place(spec: str) -> None:
    found = locate(spec)
    assert (found.identity.mode, found.identity.digest, found.tree, found.tables) == (spec, "", None, None)


def test_an_unknown_word_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'stand-in'"):
        locate("standin")


def test_tables_are_found_and_identified_by_what_is_in_them(write: Write, tmp_path: Path) -> None:
    found = locate(f"tables:{write(tmp_path / 'one', TABLES)}")
    assert found.tables == tmp_path / "one"
    assert (found.identity.mode, found.identity.spec) == ("tables", f"tables:{tmp_path / 'one'}")
    copy = write(tmp_path / "two", {**TABLES, "README.md": b"not a table"})
    assert locate(f"tables:{copy}").identity.digest == found.identity.digest != ""


@pytest.mark.parametrize("name", [*TABLES, "new.csv", "model_configs/new.csv"])
def test_any_change_of_a_table_changes_the_digest(name: str, write: Write, tmp_path: Path) -> None:
    before = locate(f"tables:{write(tmp_path, TABLES)}").identity.digest
    write(tmp_path, {name: b"other\n"})
    assert locate(f"tables:{tmp_path}").identity.digest != before


def test_a_table_in_the_model_folder_is_another_than_one_at_the_top(write: Write, tmp_path: Path) -> None:
    top = write(tmp_path / "top", {"x_tuned.csv": b"1"})
    model = write(tmp_path / "model", {"model_configs/x_tuned.csv": b"1"})
    assert locate(f"tables:{top}").identity.digest != locate(f"tables:{model}").identity.digest


@pytest.mark.parametrize(
    ("files", "got"),
    [
        ({"a8w8_untuned_gemm.csv": b""}, "1 other csv files"),
        ({"deep/er/a_tuned.csv": b"", "tuned.txt": b""}, "0 other csv files"),
    ],
)
def test_a_folder_without_a_tuned_table_is_refused(
    files: dict[str, bytes], got: str, write: Write, tmp_path: Path
) -> None:
    with pytest.raises(SubjectError, match=rf"no tuned table in the folder \(got '{got}'"):
        locate(f"tables:{write(tmp_path, files)}")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SubjectError, match="no such folder"):
        locate(f"tables:{tmp_path / 'gone'}")


def test_the_real_tables_are_accepted() -> None:
    if not CONFIGS.is_dir():
        pytest.skip("needs shared/aiter-configs beside the repository")
    assert locate(f"tables:{CONFIGS}").tables == CONFIGS.resolve()


def test_a_tree_is_identified_by_its_code_and_tables(write: Write, tmp_path: Path) -> None:
    found = locate(f"path:{write(tmp_path / 'one', PACKAGE)}")
    assert (found.tree, found.tables, found.identity.mode) == (tmp_path / "one", None, "path")
    digests = {found.identity.digest}
    for name in PACKAGE:
        copy = write(tmp_path / "copy", PACKAGE)
        write(copy, {name: b"other"})
        digests.add(locate(f"path:{copy}").identity.digest)
        shutil.rmtree(copy)
    assert len(digests) == 1 + len(PACKAGE)


def test_the_package_instead_of_its_folder_gets_a_hint(write: Write, tmp_path: Path) -> None:
    write(tmp_path, PACKAGE)
    with pytest.raises(SubjectError, match=f"Give the folder above it: path:{tmp_path}$"):
        locate(f"path:{tmp_path / 'aiter'}")


def test_an_installed_aiter_is_found(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(write(tmp_path, PACKAGE))
    found = locate("installed")
    assert (found.tree, found.identity.mode) == (tmp_path, "installed")
    assert found.identity.digest == locate(f"path:{tmp_path}").identity.digest
