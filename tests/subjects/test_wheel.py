from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.model.errors import SubjectError
from harness.subjects.archive import Bounds
from harness.subjects.identity import version_of
from harness.subjects.wheel import extract_wheel

WHEEL = {
    "vllm/__init__.py": b"",
    "vllm/deep/table.json": b"{}\n",
    "vllm/_C.abi3.so": b"\x7fELF",
    "vllm-1.2.3.dist-info/METADATA": b"Metadata-Version: 2.4\nName: vllm\nVersion: 1.2.3\n",
}


def _zip(path: Path, members: Mapping[str, bytes]) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content)
    path.write_bytes(buffer.getvalue())
    return path


@pytest.fixture
def unpack(tmp_path: Path, progress: Any) -> Callable[..., Path]:
    def unpack(members: Mapping[str, bytes], **options: Any) -> Path:
        extract_wheel(_zip(tmp_path / "vllm.whl", members), tmp_path / "tree", progress, **options)
        return tmp_path / "tree"

    return unpack


def test_a_wheel_gives_its_python_and_its_version_without_compiled_modules(
    unpack: Callable[..., Path], progress: Any
) -> None:
    tree = unpack(WHEEL)
    files = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    assert files == set(WHEEL) - {"vllm/_C.abi3.so"}
    assert version_of(tree) == "1.2.3"
    assert (progress.whats, progress.totals, progress.open) == (["unpacking vllm.whl"], progress.seen, 0)


@pytest.mark.parametrize("name", ["../out.py", "/out.py", "vllm/../../out.py", "vllm\\..\\out.py"])
def test_a_member_that_leaves_the_folder_is_refused_and_nothing_is_unpacked(
    unpack: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    with pytest.raises(SubjectError, match="leaves the folder"):
        unpack({**WHEEL, name: b"x"})
    assert [path.name for path in tmp_path.iterdir()] == ["vllm.whl"]


@pytest.mark.parametrize("bounds", [Bounds(total_bytes=10), Bounds(members=2)])
def test_a_wheel_beyond_the_bounds_is_refused(unpack: Callable[..., Path], tmp_path: Path, bounds: Bounds) -> None:
    with pytest.raises(SubjectError, match="too large"):
        unpack(WHEEL, bounds=bounds)
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("spoil", [lambda whole: whole[:40], lambda whole: whole.replace(b"{}\n", b"[]\n")])
def test_a_damaged_wheel_is_told_and_nothing_stays(tmp_path: Path, progress: Any, spoil: Any) -> None:
    path = tmp_path / "vllm.whl"
    with zipfile.ZipFile(path, "w") as file:  # stored, so that a change of the content is found by its checksum
        file.writestr("vllm/table.json", "{}\n")
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(SubjectError, match="cannot be read"):
        extract_wheel(path, tmp_path / "tree", progress)
    assert not (tmp_path / "tree").exists()
