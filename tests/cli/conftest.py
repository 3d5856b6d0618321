"""The command, run as a user runs it: a process of its own, with its exit code and both streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]


@pytest.fixture
def gfxloop(tmp_path: Path, shared_folder: Path, located: Callable[..., object]) -> Command:
    """``gfxloop("check", "--target", "cpu")`` in an empty folder, with the test run's own cache of observations."""

    def run(*words: object, versions: tuple[str, ...] = ()) -> Done:
        cache = shared_folder / "cli-cache"
        for version in versions:
            _share(located(version).tree, cache / "subjects" / "pypi" / version)  # type: ignore[attr-defined]
        command = [sys.executable, "-c", "from harness.cli import main; main()", *map(str, words)]
        env = {**os.environ, "GFXLOOP_CACHE": str(cache), "COLUMNS": "200"}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


def _share(tree: Path, link: Path) -> None:
    """The release as fetched already, so that no test downloads it twice."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        try:
            link.symlink_to(tree)
        except FileExistsError:  # another xdist process was first
            return
