"""What runs inside a worker process: one job, cell by cell, each answer sent as soon as it is there.

In: a ``Job`` and a pipe. Out: ``Started`` and ``Answered`` messages on the pipe. The probe is named, not imported,
so that this layer knows nothing of the tiers.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from harness.adapters.decision import raised
from harness.model.cell import Cell
from harness.model.record import Ended, Finding, Observation
from harness.model.target import Target
from harness.targets.lacking import lacking_package
from harness.targets.simulated import Simulation, View, install

Probe = Callable[[Simulation, Cell], Observation]
"""A probe answers one cell; its module's ``prepare(simulation)`` runs once before the first."""

OnStart = Callable[[int], None]
OnAnswer = Callable[[int, Observation], None]
"""A probe that cannot be asked cell by cell has ``observe_all(simulation, cells, started, answered)`` instead of
``observe`` and tells by index when it turns to a cell and what came of it."""


@dataclass(frozen=True)
class Job:
    """All the cells of one (subject, target, environment). Picklable."""

    target: Target
    view: View
    cells: tuple[Cell, ...]
    probe: str
    """Module that holds ``prepare`` and ``observe`` or ``observe_all``."""
    keeps_bytecode: bool = False
    """Whether the tree is gfxloop's own copy, beside whose files Python may leave what it compiled."""


@dataclass(frozen=True)
class Ready:
    """The worker has imported the subject."""


@dataclass(frozen=True)
class Unprepared:
    """The subject cannot be imported on this target: what every cell of the job is told."""

    observation: Observation


@dataclass(frozen=True)
class Started:
    """The cell at ``index`` is being asked."""

    index: int


@dataclass(frozen=True)
class Answered:
    """The cell at ``index`` has its observation."""

    index: int
    observation: Observation


Message = Ready | Unprepared | Started | Answered


def serve(job: Job, pipe: Connection, scratch: Path, log: Path) -> None:
    """Run a job to its end. Everything the subject prints goes to ``log``."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, sys.stdout.fileno() if sys.stdout else 1)
    os.dup2(descriptor, 2)
    _end_with_the_run()
    if job.keeps_bytecode:  # even where PYTHONDONTWRITEBYTECODE is set, as containers like to have it
        sys.dont_write_bytecode = False
    simulation = install(job.target, job.view, scratch)
    probe = importlib.import_module(job.probe)
    try:
        probe.prepare(simulation)
    except Exception as error:  # the subject's own fault, whatever its type, or a stand-in's
        pipe.send(Unprepared(_unprepared(error, simulation)))
        os._exit(0)
    pipe.send(Ready())
    observe_all = getattr(probe, "observe_all", None) or functools.partial(_one_by_one, probe.observe)
    observe_all(
        simulation,
        job.cells,
        lambda index: pipe.send(Started(index)),
        lambda index, seen: pipe.send(Answered(index, seen)),
    )
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # libraries registered with torch must not be torn down


def _one_by_one(
    observe: Probe, simulation: Simulation, cells: Sequence[Cell], started: OnStart, answered: OnAnswer
) -> None:
    for index, cell in enumerate(cells):
        started(index)
        answered(index, observe(simulation, cell))


def _unprepared(error: Exception, simulation: Simulation) -> Observation:
    """An import that fails is the subject's fault, unless the environment or a stand-in had a part in it."""
    what = raised(error)
    detail = undecidable_import(error, simulation)
    if detail:
        return Observation(ended=Ended.INDETERMINATE, symbol=what.symbol, detail=detail)
    message = f"vLLM cannot be imported on {simulation.target.name}: {what.detail}"
    finding = Finding(rule="import", symbol=what.symbol, message=message)
    return Observation(ended=Ended.RAISED, symbol=what.symbol, detail=what.detail, findings=(finding,))


def undecidable_import(error: Exception, simulation: Simulation) -> str:
    """Why ``error``, met while the subject was imported, says nothing of the subject; empty where it is its own fault.

    A stand-in that was called has a part in it, one that the user asked for may have, and so does a package of this
    environment that is missing or too new.
    """
    asked = [name for name, present in simulation.view.packages.items() if present]
    notes = "; ".join(simulation.journal.unanswerable)
    lacking = lacking_package(error)
    if not notes and lacking:
        notes = f"what vLLM does with {lacking}"
    if not notes and asked:
        notes = f"what {' and '.join(asked)} would give"
    return f"cannot tell {notes}. Importing vLLM here ends in {raised(error).detail}" if notes else ""


def _end_with_the_run() -> None:
    """End this worker when the process that asked for it is gone, however it went: nobody else would."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        try:
            os.fstat(parent.sentinel)
        except OSError:
            return  # the subject closed every file: the deadlines of the pool are all that is left
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
