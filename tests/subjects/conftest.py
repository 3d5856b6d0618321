"""What the tests of ``harness.subjects`` share: a progress that remembers, a tiny vLLM tree, archives."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

TREE = {
    "PKG-INFO": b"Metadata-Version: 2.4\nName: vllm\nVersion: 1.2.3\n",
    "vllm/__init__.py": b"",
    "vllm/a.py": b"a = 1\n",
    "vllm/deep/table.json": b"{}\n",
    "csrc/torch_bindings.cpp": b"// ops\n",
    "requirements/rocm.txt": b"torch\n",
}


class Recorder:
    """A Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.whats: list[str] = []
        self.totals: list[int | None] = []
        self.seen: list[int] = []
        self.open = 0

    def start(self, total: int | None, what: str) -> None:
        self.whats.append(what)
        self.totals.append(total)
        self.seen.append(0)
        self.open += 1

    def advance(self, n: int) -> None:
        self.seen[-1] += n

    def done(self) -> None:
        self.open -= 1


def _write(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def _pack(members: Mapping[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> bytes:
    """A tar archive: name -> content, or a ready-made header for what is no file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, what in members.items():
            if isinstance(what, tarfile.TarInfo):
                tar.addfile(what)
            else:
                header = tarfile.TarInfo(name)
                header.size = len(what)
                tar.addfile(header, io.BytesIO(what))
    return buffer.getvalue()


@pytest.fixture
def progress() -> Recorder:
    return Recorder()


@pytest.fixture
def write() -> Callable[[Path, Mapping[str, bytes]], Path]:
    """Writes files below a folder and returns the folder."""
    return _write


@pytest.fixture
def vllm_tree(tmp_path: Path) -> Path:
    """A folder with the smallest vLLM tree that has something of everything."""
    return _write(tmp_path / "tree", TREE)


@pytest.fixture
def pack() -> Callable[..., bytes]:
    """Makes a tar archive in memory."""
    return _pack


@pytest.fixture
def sdist(pack: Callable[..., bytes]) -> bytes:
    """A source distribution of vLLM 1.2.3, as PyPI would serve it."""
    noise = {"docs/noise.bin": random.Random(0).randbytes(300_000)}  # so that half of it is several chunks
    return pack({f"vllm-1.2.3/{name}": content for name, content in {**TREE, **noise}.items()})
