"""pytest inside pytest: the suites as a developer runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.bundled import suites_dir

Run = Callable[..., pytest.RunResult]


@pytest.fixture(scope="session")
def suites_cache(shared_folder: Path, located) -> Path:
    """A cache that has the releases already. Of the session, since pytester gives each test another home."""
    cache = shared_folder / "plugin-cache"
    for version in ("0.28.0", "0.33.0"):
        link = cache / "subjects" / "pypi" / version
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            link.symlink_to(located(version).tree)
        except FileExistsError:  # another xdist process was first
            continue
    return cache


@pytest.fixture
def run_suites(suites_cache: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run_suites("-m", "cpu")``: the suites in a process of their own."""
    monkeypatch.setenv("GFXLOOP_CACHE", str(suites_cache))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(str(suites_dir()), "--rootdir", str(suites_dir()), *words)

    return run
