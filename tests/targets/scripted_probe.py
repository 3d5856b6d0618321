"""A probe for tests of the pool and of the simulation: it does what the cell says.

``prepare`` runs the code in the variable ``GFXLOOP_TEST_PREPARE`` of the view's environment, ``observe`` the code under
``do`` in the cell's scheme. What the code leaves in ``answer`` is the answer. Workers import this module by its name.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from harness.model.cell import Cell
from harness.model.record import Ended, Observation
from harness.targets.simulated import Simulation

PREPARE = "GFXLOOP_TEST_PREPARE"


def prepare(simulation: Simulation) -> None:
    _run(simulation.view.env.get(PREPARE, ""), simulation)


def observe(simulation: Simulation, cell: Cell) -> Observation:
    return Observation(ended=Ended.ANSWERED, chosen=_run(str(cell.kernel.scheme.get("do", "")), simulation))


def _run(code: str, simulation: Simulation) -> str:
    names = {"simulation": simulation, "os": os, "signal": signal, "sys": sys, "time": time, "answer": "nothing"}
    exec(code, names)
    return str(names["answer"])
