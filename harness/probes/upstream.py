"""The probe of vLLM's own tests: (test of the subject, simulated target) -> observation, inside a worker.

In: a cell of surface ``upstream`` whose scheme names a file, or one test of it. Out: for a file the tests that pytest
collects there, for a test what became of it. The subject's own conftest and options are used as they are; only pytest
plugins of this machine are left out. It must not judge whether a difference matters.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.model.cell import Cell
from harness.model.record import Ended, Evidence, Finding, Observation
from harness.probes.route import NO_DEVICE
from harness.targets.journal import Journal
from harness.targets.packages import OPTIONAL_PACKAGES
from harness.targets.simulated import Simulation
from harness.targets.worker import OnAnswer, OnStart

COLLECTED = "collected"
"""The answer of a file's cell, as evidence for each test found."""

_LACKING = re.compile(
    r"not (installed|built|available|found)|unavailable|could not import|no module named|download|network|hub\b|memory"
    r"|multi.?gpu|at least \d+ (gpu|device)s?",
    re.IGNORECASE,
)
"""Words of a skip that speak of something this machine or the declared build lacks."""

_TARGETS = re.compile(
    r"cuda|rocm|xpu|\bcpu|hip\b|blackwell|hopper|ampere|rdna|cdna|navi|mi3\d\d|sm_?\d\d|gfx\d", re.IGNORECASE
)
"""Words of a skip that speak of a target."""

_ABSENT_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '((?!vllm\b|tests\b)[\w.]+)'")

_DOWNLOAD = re.compile(r"couldn't connect to '(https://[^']+)'")
"""What transformers says where a file of a model is not in its cache (transformers/utils/hub.py)."""


@dataclass(eq=False)
class _Loop:
    """A pytest plugin that runs the tests that are cells, one by one, and tells of each."""

    cells: Mapping[str, tuple[int, Cell]]
    """Node id -> index and cell; none to collect only."""
    journal: Journal
    started: OnStart
    answered: OnAnswer
    tests: list[str] = field(default_factory=list)
    collecting: list[pytest.CollectReport] = field(default_factory=list)
    _reports: list[pytest.TestReport] = field(default_factory=list)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected."""
        if not report.passed:
            self.collecting.append(report)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the names of all tests, and only the tests that are cells."""
        self.tests = [item.nodeid for item in items]
        items[:] = [item for item in items if item.nodeid in self.cells]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run each test as pytest would, and answer its cell."""
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            index, cell = self.cells[item.nodeid]
            self.started(index)
            self._reports = []
            with self.journal.slice() as notes:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.answered(index, _seen(cell, self._reports, notes, "it ran no phase"))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the phases of the test at hand."""
        self._reports.append(report)


def prepare(simulation: Simulation) -> None:
    """Nothing is imported ahead: the subject's conftest decides what is, and in which order."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(simulation.view.tree)

    def on_event(event: str, words: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and sys.executable in str(words):
            simulation.journal.unanswerable.append(
                "what a Python process does that the test starts: it is no simulation"
            )

    sys.addaudithook(on_event)


def observe_all(simulation: Simulation, cells: Sequence[Cell], started: OnStart, answered: OnAnswer) -> None:
    """Collect the files among the cells, and run the tests among them."""
    nodes = {str(cell.kernel.scheme["node"]): (index, cell) for index, cell in enumerate(cells) if _is_test(cell)}
    if nodes:
        files = list(dict.fromkeys(node.partition("::")[0] for node in nodes))
        told: set[int] = set()

        def tell(index: int, seen: Observation) -> None:
            told.add(index)
            answered(index, seen)

        loop, notes, said = _pytest(simulation, files, _Loop(nodes, simulation.journal, started, tell))
        for index, cell in nodes.values():  # the file of these could not be collected this time
            if index not in told:
                answered(index, _seen(cell, loop.collecting, notes, said))
    for index, cell in enumerate(cells):
        if not _is_test(cell):
            started(index)
            words = ["--collect-only", str(cell.kernel.scheme["file"])]
            loop, notes, said = _pytest(simulation, words, _Loop({}, simulation.journal, started, answered))
            answered(index, _collected(cell, loop, notes, said))


def _is_test(cell: Cell) -> bool:
    return "node" in cell.kernel.scheme


def _pytest(simulation: Simulation, words: list[str], loop: _Loop) -> tuple[_Loop, Journal, str]:
    """Run pytest with the subject's own settings. What it says on stderr is its account of a conftest that fails."""
    said = io.StringIO()
    with simulation.journal.slice() as notes, contextlib.redirect_stderr(said):
        pytest.main(["-c", "pyproject.toml", "-q", "-p", "no:cacheprovider", *words], plugins=[loop])
    return loop, notes, " ".join(line for line in said.getvalue().splitlines() if line.strip())


def _collected(cell: Cell, loop: _Loop, notes: Journal, said: str) -> Observation:
    if not loop.tests:
        return _seen(cell, loop.collecting, notes, said)
    found = tuple(Evidence(question=test, answer=COLLECTED) for test in loop.tests)
    return Observation(ended=Ended.ANSWERED, chosen=f"{len(found)} tests", symbol=cell.kernel.name, evidence=found)


def _seen(
    cell: Cell, reports: Iterable[pytest.CollectReport | pytest.TestReport], notes: Journal, said: str
) -> Observation:
    """What became of a test: the first phase that did not pass says it."""
    every = list(reports)
    bad = next((report for report in every if report.failed), None)
    skipped = next((report for report in every if report.skipped), None)
    if bad is None and skipped is None and every and notes.unanswerable:
        detail = f"cannot tell {'; '.join(dict.fromkeys(notes.unanswerable))}. Here: passed"
        return Observation(ended=Ended.INDETERMINATE, symbol=cell.kernel.name, detail=detail)
    if bad is not None:
        return _failed(cell, _words(bad), notes)
    if skipped is not None:
        expected = getattr(skipped, "wasxfail", None)
        if expected is not None:
            return Observation(ended=Ended.ANSWERED, chosen="xfailed", symbol=cell.kernel.name, detail=str(expected))
        return _skipped(cell, skipped, notes)
    if not every:
        detail = f"pytest cannot start on the subject's tests: {said}"
        return Observation(ended=Ended.INDETERMINATE, symbol=cell.kernel.name, detail=detail)
    return Observation(ended=Ended.ANSWERED, chosen="passed", symbol=cell.kernel.name)


def _failed(cell: Cell, words: str, notes: Journal) -> Observation:
    """A failure that device code had a part in is no verdict on the subject."""
    reached = list(dict.fromkeys([*notes.unanswerable, *notes.unknown]))
    absent = _ABSENT_PACKAGE.search(words)
    if absent is not None:
        reached.append(f"what the test does with the package {absent.group(1)}, which is not installed here")
    download = _DOWNLOAD.search(words)
    if download is not None:
        reached.append(f"what {download.group(1)} gives, and a worker has no network")
    if not reached and any(phrase in words for phrase in NO_DEVICE):
        reached = ["what the device does"]
    if reached:
        detail = f"cannot tell {'; '.join(reached)}. Here: {words}"
        return Observation(ended=Ended.INDETERMINATE, symbol=cell.kernel.name, detail=detail)
    finding = Finding(rule="upstream_test", symbol=cell.kernel.name, message=f"the subject's own test fails: {words}")
    return Observation(ended=Ended.ANSWERED, chosen="failed", symbol=cell.kernel.name, findings=(finding,))


def _skipped(cell: Cell, report: Any, notes: Journal) -> Observation:
    """A skip for want of something is "cannot tell"; a skip by target is the test's own choice."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    package = next((name for name in OPTIONAL_PACKAGES if re.search(rf"\b{name}\b", reason)), None)
    elsewhere = _TARGETS.search(reason) and cell.target.gfx not in reason
    lacking = notes.unanswerable or package or (_LACKING.search(reason) and not elsewhere)
    who = "the simulation cannot serve it" if lacking else "the test leaves this target out"
    ended = Ended.INDETERMINATE if lacking else Ended.UNSUPPORTED
    return Observation(ended=ended, symbol=cell.kernel.name, detail=f"skipped, {who}: {reason}")


def _words(report: Any) -> str:
    """``tests/…/test_x.py:12: AssertionError: ...``, one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
        return lines[-1].removeprefix("E   ").strip() if lines else "no words"
    first = next((line for line in crash.message.splitlines() if line.strip()), "")
    place = re.sub(r"^.*?/(?=(?:tests|vllm|site-packages)/)", "", str(crash.path))
    return f"{place}:{crash.lineno}: {first}" + (
        f" (in {report.when})" if getattr(report, "when", "call") != "call" else ""
    )
