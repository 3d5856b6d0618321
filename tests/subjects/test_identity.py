from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model.errors import SubjectError
from harness.subjects.identity import tree_digest, version_of

Write = Callable[[Path, Mapping[str, bytes]], Path]
COUNTS = (
    "vllm/__init__.py",
    "vllm/a.py",
    "vllm/deep/table.json",
    "csrc/torch_bindings.cpp",
    "requirements/rocm.txt",
)
COUNTS_WHEN_ADDED = (
    "vllm/new.py",
    "vllm/deep/more.csv",
    "vllm/deep/er/x.yaml",
    "vllm/x.yml",
    "vllm/x.toml",
    "vllm/x.txt",
    "csrc/rocm/torch_bindings.cpp",
    "csrc/rocm/ops.h",
    "csrc/ops.h",
    "csrc/kernel.cu",
    "csrc/registration.cpp",
    "requirements/cuda.txt",
)
DOES_NOT_COUNT = (
    "vllm/__pycache__/a.cpython-311.pyc",
    "vllm/__pycache__/a.py",
    "vllm/_C.abi3.so",
    "vllm/readme.md",
    "vllm/tests/test_a.py",
    "vllm/docs/conf.py",
    "tests/test_a.py",
    "docs/conf.py",
    "requirements/test/rocm.txt",
    "csrc/readme.md",
    "setup.py",
)


def test_a_copy_elsewhere_with_other_times_has_the_same_digest(vllm_tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(vllm_tree, copy)
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
    assert tree_digest(copy) == tree_digest(vllm_tree)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=st.sampled_from(COUNTS), place=st.integers(0, 500), byte=st.binary(min_size=1, max_size=1))
def test_any_changed_byte_changes_the_digest_even_when_size_and_time_stay(
    vllm_tree: Path, name: str, place: int, byte: bytes
) -> None:
    path = vllm_tree / name
    path.write_bytes(bytes(501))
    os.utime(path, (1, 1))
    before = tree_digest(vllm_tree)
    content = bytearray(501)
    content[place] = byte[0]
    path.write_bytes(content)
    os.utime(path, (1, 1))
    assert (tree_digest(vllm_tree) == before) == (byte == b"\0")


@pytest.mark.parametrize("name", COUNTS)
def test_a_removed_file_changes_the_digest(vllm_tree: Path, name: str) -> None:
    before = tree_digest(vllm_tree)
    (vllm_tree / name).unlink()
    assert tree_digest(vllm_tree) != before


@pytest.mark.parametrize("name", COUNTS)
def test_a_renamed_file_changes_the_digest(vllm_tree: Path, name: str) -> None:
    before = tree_digest(vllm_tree)
    path = vllm_tree / name
    (path.parent / "sub").mkdir()
    path.rename(path.parent / "sub" / path.name if "requirements" not in name else path.with_name("z.txt"))
    assert tree_digest(vllm_tree) != before


@pytest.mark.parametrize("name", COUNTS_WHEN_ADDED)
def test_an_added_file_changes_the_digest_even_when_it_is_empty(vllm_tree: Path, write: Write, name: str) -> None:
    before = tree_digest(vllm_tree)
    write(vllm_tree, {name: b""})
    assert tree_digest(vllm_tree) != before


@pytest.mark.parametrize("name", DOES_NOT_COUNT)
def test_what_cannot_decide_routing_leaves_the_digest_alone(vllm_tree: Path, write: Write, name: str) -> None:
    before = tree_digest(vllm_tree)
    write(vllm_tree, {name: b"x"})
    assert tree_digest(vllm_tree) == before


def test_bytes_that_move_between_two_files_change_the_digest(vllm_tree: Path, write: Write) -> None:
    digests = {
        tree_digest(write(vllm_tree, {"vllm/a.py": first, "vllm/b.py": second}))
        for first, second in ((b"12", b"3"), (b"1", b"23"), (b"3", b"12"))
    }
    assert len(digests) == 3


def test_a_linked_folder_counts_like_a_real_one_and_a_loop_ends(vllm_tree: Path, write: Write, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"x.py": b"1"})
    (vllm_tree / "vllm" / "linked").symlink_to(tmp_path / "elsewhere")
    (vllm_tree / "vllm" / "loop").symlink_to(vllm_tree / "vllm")
    before = tree_digest(vllm_tree)
    write(tmp_path / "elsewhere", {"x.py": b"2"})
    assert tree_digest(vllm_tree) != before


def test_what_is_named_like_a_file_but_is_none_does_not_hang(vllm_tree: Path) -> None:
    before = tree_digest(vllm_tree)
    os.mkfifo(vllm_tree / "vllm" / "pipe.py")
    (vllm_tree / "vllm" / "broken.py").symlink_to("nowhere")
    assert tree_digest(vllm_tree) == before


def test_a_name_that_is_no_utf8_counts(vllm_tree: Path) -> None:
    before = tree_digest(vllm_tree)
    Path(os.fsdecode(os.fsencode(vllm_tree) + b"/vllm/\xff.py")).write_bytes(b"")
    assert tree_digest(vllm_tree) != before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_an_error(vllm_tree: Path) -> None:
    (vllm_tree / "vllm" / "a.py").chmod(0)
    with pytest.raises(SubjectError, match="the tree cannot be read"):
        tree_digest(vllm_tree)


METADATA = b"Metadata-Version: 2.4\nName: vllm\nVersion: %s\n\nVersion: in the text\n"
VERSION_PY = b"__version__: str\nversion: str\n\n__version__ = version = '5.0.dev1+g1'\n__version_tuple__ = (5, 0)\n"
SOURCES = {
    "PKG-INFO": METADATA % b"1.0",
    "vllm.egg-info/PKG-INFO": METADATA % b"2.0",
    "vllm-3.0.dist-info/METADATA": METADATA % b"3.0",
    "vllm/_version.py": VERSION_PY,
}


def test_the_version_comes_from_the_best_source_that_is_there(write: Write, tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    found = []
    for name in SOURCES:
        found.append(version_of(tmp_path))
        (tmp_path / name).unlink()
    assert [*found, version_of(tmp_path)] == ["1.0", "2.0", "3.0", "5.0.dev1+g1", "unknown"]


@pytest.mark.parametrize(
    "files",
    [
        {"PKG-INFO": b"Name: other\nVersion: 1.0\n"},
        {"PKG-INFO": b"Name: vllm\n"},
        {"PKG-INFO": b""},
        {"vllm_other-1.0.dist-info/METADATA": b"Name: vllm-other\nVersion: 1.0\n"},
        {"vllm/_version.py": b"version_note = 'no'\n"},
        {"vllm/_version.py": b"\xff\xfe"},
    ],
)
def test_the_version_of_something_else_is_not_taken(files: dict[str, bytes], write: Write, tmp_path: Path) -> None:
    assert version_of(write(tmp_path, files)) == "unknown"


def test_a_plain_version_file_is_understood(write: Write, tmp_path: Path) -> None:
    assert version_of(write(tmp_path, {"vllm/_version.py": b'__version__ = "0.6"\n'})) == "0.6"
