"""What tells one vLLM tree from another: a digest of the files that can decide routing, and the version.

In: a folder. Out: strings that depend on names and content only. Must not trust modification times or import anything.
"""

from __future__ import annotations

import email.parser
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from harness.model.errors import SubjectError, located

UNKNOWN = "unknown"
_PRUNED = frozenset({"__pycache__", "tests", "docs"})
_THREADS = 4
_VERSION = re.compile(r"^(?:__version__|version)\s*=[^'\"\n]*(['\"])([^'\"\n]+)\1", re.MULTILINE)


class Part(NamedTuple):
    """One folder of a tree that counts."""

    folder: str
    endings: tuple[str, ...]
    deep: bool = True


_TREE = (
    Part("vllm", (".py", ".json", ".csv", ".yaml", ".yml", ".toml", ".txt")),
    # Any of these may register an operator, and what registers includes headers from other folders.
    Part("csrc", (".cpp", ".cu", ".h")),
    Part("requirements", (".txt",), deep=False),
)


def tree_digest(tree: Path) -> str:
    """Digest of a vLLM tree (the folder that contains ``vllm/``): any edit that can decide routing changes it.

    Raises:
        SubjectError: a file cannot be read.
    """
    return parts_digest(tree, _TREE)


def parts_digest(root: Path, parts: Iterable[Part]) -> str:
    """blake2b (32 hex digits) over the sorted (relative path, content) of the files that ``parts`` name below ``root``.

    Caches of Python, shared objects, tests and documentation never count; links are followed.

    Raises:
        SubjectError: a file or folder cannot be read.
    """
    try:
        names = sorted(name for part in parts for name in _walk(str(root), part, part.folder, frozenset()))
        step = max(1, -(-len(names) // _THREADS))
        chunks = [names[i : i + step] for i in range(0, len(names), step)]
        with ThreadPoolExecutor(_THREADS) as pool:
            digests = [d for some in pool.map(lambda chunk: _content(str(root), chunk), chunks) for d in some]
    except OSError as error:
        hint = "Make the folder readable and leave it alone while it is read."
        raise SubjectError(located(str(root), "the tree cannot be read", got=str(error), hint=hint)) from error
    whole = hashlib.blake2b(digest_size=16)
    for name, digest in zip(names, digests, strict=True):
        path = os.fsencode(name)
        whole.update(len(path).to_bytes(4, "big") + path + digest)
    return whole.hexdigest()


def _walk(root: str, part: Part, folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Relative paths below ``root/folder``. ``above`` has the folders on the way, so that a link to one ends."""
    path = os.path.join(root, folder)
    if not os.path.isdir(path):
        return
    stat = os.stat(path)
    if (stat.st_dev, stat.st_ino) in above:
        return
    above |= {(stat.st_dev, stat.st_ino)}
    with os.scandir(path) as entries:
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if entry.name.endswith(part.endings) and entry.is_file():
                yield name
            elif part.deep and entry.name not in _PRUNED and entry.is_dir():
                yield from _walk(root, part, name, above)


def _content(root: str, names: Iterable[str]) -> list[bytes]:
    digests = []
    for name in names:
        with open(os.path.join(root, name), "rb", buffering=0) as file:
            digests.append(hashlib.blake2b(file.read(), digest_size=16).digest())
    return digests


def version_of(tree: Path) -> str:
    """The version of vLLM as the tree tells it: its package metadata, else ``vllm/_version.py``, else ``unknown``."""
    metadata = [tree / "PKG-INFO", *sorted(tree.glob("vllm*.egg-info/PKG-INFO"))]
    metadata += sorted(tree.glob("vllm-*.dist-info/METADATA"))
    for path in metadata:
        headers = email.parser.HeaderParser().parsestr(_text(path))
        # In site-packages a PKG-INFO may belong to somebody else.
        if headers["Name"] == "vllm" and headers["Version"]:
            return str(headers["Version"])
    match = _VERSION.search(_text(tree / "vllm" / "_version.py"))
    return match[2] if match else UNKNOWN


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
