"""One pytest session: which cells its tests stand for, their records, and the run directory.

In: pytest's configuration. Out: records for the fixtures, and at the end the reports. Without gfxloop's suites in the
run it does nothing. With xdist each worker has a session of its own: they share the cache of observations, where the
first to ask for a target's cells answers them all, and write shards of one run directory.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from harness.compare import judge_check
from harness.model.cell import Cell
from harness.model.errors import HarnessError, NothingSelectedError, RunDirectoryError, located, nearest
from harness.model.record import Observation, Record
from harness.plugin.options import request_of, wants_suites
from harness.probes.campaign import Campaign, Choice, choose, open_campaign, with_cells
from harness.probes.engine import Group
from harness.records import RunWriter, read_run
from harness.records.layout import MANIFEST
from harness.records.writer import utc_now, utc_today
from harness.report.summary import summarise
from harness.report.write import write_reports
from harness.subjects import progress_on
from harness.targets.home import cache_folder

SESSION = pytest.StashKey["Session"]()


def stop(error: HarnessError) -> NoReturn:
    """End pytest with the harness's own exit code."""
    pytest.exit(f"gfxloop: {error}", returncode=error.exit_code)


class Session:
    """State of one pytest session."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the matrix and choose the cells, when the run is about the suites.

        Raises:
            HarnessError: the options or the matrix are wrong, or no cell is left.
        """
        self._worker: str = getattr(config, "workerinput", {}).get("workerid", "")
        self._out = Path(config.getoption("--out")) if config.getoption("--out") else None
        self._request = request_of(config)
        self._choice = choose(self._request, utc_today()) if wants_suites(config) else None
        self._selected: tuple[Cell, ...] = ()
        self._campaign: Campaign | None = None
        """The subject and all chosen cells, found before the first test."""
        self._opened: Campaign | None = None
        """The same over the cells whose tests run."""
        self._writer: RunWriter | None = None
        self._seen: dict[str, Observation] = {}
        self._lines: list[str] = []
        for mark in self._marks():
            config.addinivalue_line("markers", f"{mark}: cells of matrix.yaml")
        if self._choice is not None:
            self._check_marks(config)

    def prepare(self, config: pytest.Config) -> None:
        """Find the subject and look at ``--out`` before the first test, so that a mistake is told once.

        Raises:
            HarnessError: the subject cannot be had, or ``--out`` is no empty folder.
        """
        if self._choice is None or self._worker or config.option.collectonly:
            return
        self._campaign = self._find()
        if self._out is not None and self._out.exists() and (self._out.is_file() or any(self._out.iterdir())):
            hint = "Choose another folder, or delete this one: each run has its own."
            raise RunDirectoryError(located(f"--out {self._out}", "not an empty folder", hint=hint))

    def header(self) -> list[str]:
        """What the run is about."""
        if self._choice is None:
            return []
        cells, request = self._choice.cells, self._request
        targets = dict.fromkeys(cell.target.name for cell in cells)
        tiers = dict.fromkeys(cell.tier.value for cell in cells)
        return [
            f"gfxloop: subject {request.subject}, AITER {request.aiter}, {len(cells)} cells of {request.matrix.name}",
            f"gfxloop: tiers {', '.join(tiers)}; attached: none; simulated: {', '.join(targets)}",
            *(f"gfxloop: {note}" for note in self._choice.notes),
        ]

    def parametrise(self, metafunc: pytest.Metafunc) -> None:
        """Give the test its cells, each with the marks of its target and tier."""
        mark = metafunc.definition.get_closest_marker("cells")
        surfaces = set(mark.args) if mark else set()
        cells = [cell for cell in self._chosen().cells if cell.kernel.surface in surfaces]
        parameters = [
            pytest.param(cell, id=cell.id, marks=[getattr(pytest.mark, m) for m in _marks(cell)]) for cell in cells
        ]
        metafunc.parametrize("cell", parameters)

    def drop_empty(self, items: list[pytest.Item]) -> None:
        """Take out the placeholder that pytest makes of a test without parameters."""
        items[:] = [item for item in items if not _is_empty(item)]

    def note_selected(self, items: Sequence[pytest.Item]) -> None:
        """Remember the cells whose tests run."""
        self._selected = tuple(cell for item in items if (cell := _cell_of(item)) is not None)

    def record(self, cell: Cell) -> Record:
        """The record of a cell; the first question about a target answers all of its selected cells."""
        campaign = self._open()
        others = campaign.partners.get(cell.id, ())
        for one in (cell, *others):
            if one.id not in self._seen:
                self._seen.update(self._ask(campaign, one))
        record = campaign.record(cell, self._seen[cell.id], tuple((other, self._seen[other.id]) for other in others))
        if self._writer is not None:
            self._writer.write(record)
        return record

    def finish(self, session: pytest.Session) -> None:
        """Close the shard, write the reports, and set the exit code of a selection that selected nothing."""
        if self._writer is not None:
            self._writer.__exit__(None, None, None)
        if self._worker or self._choice is None:
            return
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = NothingSelectedError.exit_code
            self._lines = [f"gfxloop: nothing selected. Marks of this matrix: {' '.join(self._marks())}"]
        elif self._out is not None and (self._out / MANIFEST).is_file():
            run = read_run(self._out)
            report = write_reports(run, self._out)
            verdict = summarise(run).verdict_line
            gate = judge_check(run.records, run.manifest.cells)
            if session.exitstatus == pytest.ExitCode.OK:  # nothing decided is no success, though each test was skipped
                session.exitstatus = gate.exit_code
            self._lines = [*(f"gfxloop: {note}" for note in run.notes if not gate.passed), verdict, f"report: {report}"]

    def _check_marks(self, config: pytest.Config) -> None:
        """A mark of ``-m`` that nobody registered selects nothing, whatever else is in the expression."""
        known = {re.match(r"\w*", line)[0] for line in config.getini("markers")}  # type: ignore[index]
        words = set(re.findall(r"[A-Za-z_]\w*", config.getoption("markexpr"))) - {"and", "or", "not", "True", "False"}
        for word in sorted(words - known):
            hint = f"{nearest(word, self._marks())} Marks of this matrix: {' '.join(self._marks())}."
            raise NothingSelectedError(located("-m", "no cell has this mark", got=word, hint=hint))

    def summary(self) -> list[str]:
        """Lines for the end of pytest's output."""
        return self._lines

    def _chosen(self) -> Choice:
        if self._choice is None:  # a test outside the suites asks for cells
            self._choice = choose(self._request, utc_today())
        return self._choice

    def _marks(self) -> list[str]:
        cells = self._choice.cells if self._choice else ()
        return sorted({mark for cell in cells for mark in _marks(cell)})

    def _open(self) -> Campaign:
        if self._opened is None:
            campaign = with_cells(self._campaign or self._find(), self._selected)
            if self._out is not None:
                manifest = campaign.manifest(shlex.join(["pytest", *sys.argv[1:]]), utc_now())
                self._writer = RunWriter(self._out, manifest, shard=self._worker or "main").__enter__()
            self._opened = campaign
        return self._opened

    def _find(self) -> Campaign:
        progress = progress_on(sys.stderr)
        return open_campaign(self._request, self._chosen(), cache=cache_folder(), progress=progress)

    def _ask(self, campaign: Campaign, cell: Cell) -> dict[str, Observation]:
        """Alone, all cells at once, so that every core works; beside other workers, those of one target."""
        if not self._worker:
            seen: dict[str, Observation] = {}
            campaign.engine.observe(self._selected or (cell,), lambda asked, one: seen.update({asked.id: one}))
            return seen
        return campaign.engine.observe_group(_group_of(campaign, cell))


def _group_of(campaign: Campaign, cell: Cell) -> Group:
    return next(group for group in campaign.engine.groups(campaign.cells) if cell in group.cells)


def _marks(cell: Cell) -> tuple[str, str]:
    return cell.target.mark, f"tier_{cell.tier}"


def _cell_of(item: pytest.Item) -> Cell | None:
    cell = getattr(item, "callspec", None) and item.callspec.params.get("cell")  # type: ignore[attr-defined]
    return cell if isinstance(cell, Cell) else None


def _is_empty(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "cell" in callspec.params and not isinstance(callspec.params["cell"], Cell)
