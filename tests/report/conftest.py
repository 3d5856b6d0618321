"""The sample runs as a fixture; they live in ``tests/report/sample_runs.py``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    # Loaded by path: test folders are no packages, and tests of three folders share this one file.
    path = Path(__file__).parents[1] / "report" / "sample_runs.py"
    spec = importlib.util.spec_from_file_location("sample_runs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
