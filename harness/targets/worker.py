"""What runs inside a worker process: one job, cell by cell, each answer sent as soon as it is there.

In: a ``Job`` and a pipe. Out: ``Started`` and ``Answered`` messages on the pipe. The probe is named, not imported,
so that this layer knows nothing of the tiers.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from harness.adapters.decision import raised
from harness.model.cell import Cell
from harness.model.record import Ended, Finding, Observation
from harness.model.target import Target
from harness.targets.simulated import Simulation, View, install

Probe = Callable[[Simulation, Cell], Observation]
"""A probe answers one cell; its module's ``prepare(simulation)`` runs once before the first."""


@dataclass(frozen=True)
class Job:
    """All the cells of one (subject, target, environment). Picklable."""

    target: Target
    view: View
    cells: tuple[Cell, ...]
    probe: str
    """Module that holds ``prepare`` and ``observe``."""


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
    simulation = install(job.target, job.view, scratch)
    probe = importlib.import_module(job.probe)
    try:
        probe.prepare(simulation)
    except Exception as error:  # the subject's own fault, whatever its type, or a stand-in's
        pipe.send(Unprepared(_unprepared(error, simulation)))
        os._exit(0)
    pipe.send(Ready())
    for index, cell in enumerate(job.cells):
        pipe.send(Started(index))
        pipe.send(Answered(index, probe.observe(simulation, cell)))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # libraries registered with torch must not be torn down


def _unprepared(error: Exception, simulation: Simulation) -> Observation:
    """An import that fails is the subject's fault, unless a stand-in that the user asked for had a part in it."""
    what = raised(error)
    asked = [name for name, present in simulation.view.packages.items() if present]
    if asked or simulation.journal.unanswerable:
        notes = "; ".join(simulation.journal.unanswerable) or f"what {' and '.join(asked)} would give"
        detail = f"cannot tell {notes}. Importing vLLM with the stand-in ends in {what.detail}"
        return Observation(ended=Ended.INDETERMINATE, symbol=what.symbol, detail=detail)
    message = f"vLLM cannot be imported on {simulation.target.name}: {what.detail}"
    finding = Finding(rule="import", symbol=what.symbol, message=message)
    return Observation(ended=Ended.RAISED, symbol=what.symbol, detail=what.detail, findings=(finding,))


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
