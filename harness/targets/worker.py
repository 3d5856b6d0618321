"""What runs inside a worker process: one job, cell by cell, each answer sent as soon as it is there.

In: a ``Job`` and a pipe. Out: ``Started`` and ``Answered`` messages on the pipe. The probe is named, not imported,
so that this layer knows nothing of the tiers.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from harness.model.cell import Cell
from harness.model.record import Observation
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
class Started:
    """The cell at ``index`` is being asked."""

    index: int


@dataclass(frozen=True)
class Answered:
    """The cell at ``index`` has its observation."""

    index: int
    observation: Observation


Message = Ready | Started | Answered


def serve(job: Job, pipe: Connection, scratch: Path, log: Path) -> None:
    """Run a job to its end. Everything the subject prints goes to ``log``."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, sys.stdout.fileno() if sys.stdout else 1)
    os.dup2(descriptor, 2)
    simulation = install(job.target, job.view, scratch)
    probe = importlib.import_module(job.probe)
    probe.prepare(simulation)
    pipe.send(Ready())
    for index, cell in enumerate(job.cells):
        pipe.send(Started(index))
        pipe.send(Answered(index, probe.observe(simulation, cell)))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # libraries registered with torch must not be torn down
