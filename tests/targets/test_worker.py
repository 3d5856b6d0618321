from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model.cell import Cell, Layer
from harness.model.record import Ended, Observation
from harness.targets.facts import TARGETS
from harness.targets.simulated import View
from harness.targets.worker import Answered, Job, Ready, Started, serve


@pytest.fixture
def job(make_cell: Callable[..., Cell], tiny_tree: Path, scripted: str) -> Job:
    cells = [
        make_cell("first", scheme={"do": "print('seen'); answer = type(simulation).__name__"}),
        make_cell("second", layer=Layer("o", 64, 128)),
    ]
    return Job(TARGETS["cpu"], View(tiny_tree, "0", "none", None, {}), tuple(cells), scripted)


def test_a_job_survives_pickling(job: Job) -> None:
    assert pickle.loads(pickle.dumps(job)) == job


def test_a_worker_says_ready_then_started_and_answered_for_each_cell_and_ends_well(job: Job, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(job, sender, tmp_path, tmp_path / "log"))
    process.start()
    sender.close()
    messages = [receiver.recv() for _ in range(5)]
    with pytest.raises(EOFError):
        receiver.recv()
    process.join()
    assert messages == [
        Ready(),
        Started(0),
        Answered(0, Observation(ended=Ended.ANSWERED, chosen="Simulation")),
        Started(1),
        Answered(1, Observation(ended=Ended.ANSWERED, chosen="nothing")),
    ]
    assert process.exitcode == 0
    assert (tmp_path / "log").read_text() == "seen\n"
