from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model.cell import Cell, Layer
from harness.model.record import Ended, Observation
from harness.targets.facts import TARGETS
from harness.targets.journal import Journal
from harness.targets.simulated import Simulation, View
from harness.targets.worker import Answered, Job, Ready, Started, serve, undecidable_import


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


@pytest.mark.parametrize("keeps", [True, False])
def test_bytecode_is_kept_beside_a_tree_of_our_own_alone(
    make_cell: Callable[..., Cell], scripted: str, tmp_path: Path, keeps: bool
) -> None:
    cell = make_cell(scheme={"do": "import vllm"})
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("")
    job = Job(TARGETS["cpu"], View(tmp_path, "0", "none", None, {}), (cell,), scripted, keeps)
    _, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(job, sender, tmp_path, tmp_path / "log")
        )
        process.start()
    sender.close()
    process.join()
    assert process.exitcode == 0
    assert (tmp_path / "vllm" / "__pycache__").exists() is keeps


@pytest.fixture
def simulation(tiny_tree: Path) -> Simulation:
    return Simulation(TARGETS["cpu"], View(tiny_tree, "0", "none", None, {}), Journal(), None, [])


def test_an_import_that_fails_by_itself_is_the_subject_s_fault(simulation: Simulation) -> None:
    assert undecidable_import(AssertionError("no layer"), simulation) == ""


def test_an_import_that_fails_for_a_missing_package_names_it(simulation: Simulation) -> None:
    words = undecidable_import(ModuleNotFoundError("No module named 'made_up'", name="made_up"), simulation)
    assert words == (
        "cannot tell what vLLM does with package made_up, which is missing here. "
        "Importing vLLM here ends in ModuleNotFoundError: No module named 'made_up'"
    )


def test_an_import_that_called_a_stand_in_says_what_was_called(simulation: Simulation) -> None:
    error = simulation.journal.limit("aiter.dtypes.fp8")
    assert undecidable_import(error, simulation).startswith("cannot tell what aiter.dtypes.fp8 does. Importing vLLM")


def test_a_package_taken_as_present_may_have_a_part_in_it(simulation: Simulation, tiny_tree: Path) -> None:
    simulation.view = View(tiny_tree, "0", "none", None, {}, {"flashinfer": True, "conch": False})
    assert undecidable_import(KeyError("x"), simulation).startswith("cannot tell what flashinfer would give.")
