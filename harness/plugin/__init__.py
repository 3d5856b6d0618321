"""The pytest plugin: hooks only. What they do is in ``session``; the fixtures are in the folder ``fixtures/``.

In a project of its own (vLLM's tests, say) the plugin adds the fixture ``simulated_target``, the mark ``gfx`` and the
options, and costs nothing else: the matrix is read when one of gfxloop's suites is collected, or one is named.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from harness.bundled import fixtures_dir
from harness.model.errors import HarnessError
from harness.plugin.options import add_options
from harness.plugin.session import SESSION, Session, stop


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of ``gfxloop check``, by the same names."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and the fixtures, and check the options before anything is collected."""
    config.addinivalue_line("markers", "cells(*surfaces): run the test for each cell of these surfaces of matrix.yaml")
    config.addinivalue_line("markers", "gfx(name): run the test under a simulated target, in this process")
    for path in sorted(fixtures_dir().glob("*.py")):
        config.pluginmanager.register(_load(path), f"gfxloop-fixtures-{path.stem}")
    try:
        config.stash[SESSION] = Session(config)
    except HarnessError as error:
        stop(error)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tell of a wrong subject or output folder once, before the first test."""
    try:
        session.config.stash[SESSION].prepare(session.config)
    except HarnessError as error:
        stop(error)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name subject, targets, tiers and what is attached."""
    return config.stash[SESSION].header()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each chosen cell of the surfaces that the test's mark names."""
    if "cell" in metafunc.fixturenames:
        metafunc.config.stash[SESSION].parametrise(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the tests that the selection left without a cell."""
    config.stash[SESSION].drop_empty(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the cells whose tests will run, so that one worker can answer all that share a target."""
    session.config.stash[SESSION].note_selected(session.items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the reports; a selection that selects nothing is exit code 3, never a success."""
    session.config.stash[SESSION].finish(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The verdict and the path of the report, or what there is to select."""
    for line in config.stash[SESSION].summary():
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def gfxloop(request: pytest.FixtureRequest) -> Session:
    """The session: subject, cells and their records."""
    return request.config.stash[SESSION]


def _load(path: Path) -> object:
    """A module of the folder ``fixtures/``, which is no package of the harness."""
    spec = importlib.util.spec_from_file_location(f"gfxloop_fixtures_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
