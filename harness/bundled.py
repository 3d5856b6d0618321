"""Where the suites, the fixtures and matrix.yaml lie: beside the package in a clone, inside it in an installed wheel.

Out: paths. Nothing else in the house may decide this, and nothing here reads the files or checks that they exist.
The mapping is the one of ``tool.hatch.build.targets.wheel`` in pyproject.toml.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def suites_dir() -> Path:
    """The folder of pytest suites that users run, one subfolder a concern."""
    return _home(_PACKAGE) / "suites"


def fixtures_dir() -> Path:
    """The folder of pytest fixtures and small data files that the suites use."""
    return _home(_PACKAGE) / "fixtures"


def matrix_path() -> Path:
    """The matrix.yaml that commands read when none is named."""
    return _home(_PACKAGE) / "matrix.yaml"


def _home(package: Path) -> Path:
    """The folder that holds all three. Only a built wheel has ``_bundled``; a clone never does."""
    bundled = package / "_bundled"
    return bundled if bundled.is_dir() else package.parent
