from __future__ import annotations

import dataclasses
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.model.cell import Cell
from harness.model.record import Ended, Observation
from harness.model.run import Manifest
from harness.model.subject import Aiter, Subject
from harness.probes.judge import judge
from harness.records import RunWriter, read_run
from harness.targets.facts import TARGETS
from harness.targets.pool import Limits, Start, WorkerPool
from harness.targets.simulated import View
from harness.targets.worker import Job

ENDS = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "was killed by SIGSEGV",
    "os.abort()": "was killed by SIGABRT",
    "os.kill(os.getpid(), signal.SIGRTMIN + 1)": f"was killed by signal {signal.SIGRTMIN + 1}",
    "os._exit(0)": "ended with status 0",
    "os._exit(3)": "ended with status 3",
    "sys.exit(5)": "ended with status 5",
    "raise RuntimeError('out of luck')": "ended with status 1 (RuntimeError: out of luck)",
    "os.closerange(3, 256)": "ended with status",
}
"""Ways to end a worker, and how the pool puts each."""

HANG = "time.sleep(600)"
FINE = "answer = 'fine'"

Made = Callable[..., Job]


@pytest.fixture
def make_job(make_cell: Callable[..., Cell], tiny_tree: Path, scripted: str) -> Made:
    """``make_job("answer = 1", HANG)``: a job with one cell for each piece of code."""

    def make(*does: str, target: str = "cpu", prepare: str = "") -> Job:
        cells = [make_cell(f"cell{i}", target=target, scheme={"do": do}) for i, do in enumerate(does)]
        view = View(tiny_tree, "0", "none", None, {"GFXLOOP_TEST_PREPARE": prepare})
        return Job(TARGETS[target], view, tuple(cells), scripted)

    return make


class Run:
    """What a pool reported."""

    def __init__(
        self, jobs: Sequence[Job], *, size: int = 2, start: Start = Start.FORK_SERVER, limits: Limits | None = None
    ) -> None:
        self.seen: list[tuple[str, Observation]] = []
        self.pids: list[int] = []
        with WorkerPool(size, start, limits) as pool:
            pool.run(jobs, lambda _job, cell, seen: self.seen.append((cell.id, seen)), self.pids.append)

    def of(self, job: Job) -> list[Observation]:
        """The observations of a job's cells, each of which must have been reported once."""
        found: dict[str, list[Observation]] = {}
        for name, seen in self.seen:
            found.setdefault(name, []).append(seen)
        assert [len(found.get(cell.id, [])) for cell in job.cells] == [1] * len(job.cells)
        return [found[cell.id][0] for cell in job.cells]


def _ended(observations: Sequence[Observation]) -> list[Ended]:
    return [seen.ended for seen in observations]


def test_every_cell_of_every_job_is_answered_once_by_one_worker_a_job(make_job: Made) -> None:
    jobs = [make_job(*(f"answer = {i}" for i in range(4)), target=name) for name in ("cpu", "none", "xpu")]
    run = Run([*jobs, make_job(target="gfx942/MI300X")])
    assert [[seen.chosen for seen in run.of(job)] for job in jobs] == [["0", "1", "2", "3"]] * 3
    assert len(run.seen) == 12
    assert len(run.pids) == len(set(run.pids)) == 3


@pytest.mark.parametrize(("end", "how"), ENDS.items(), ids=ENDS)
def test_a_worker_that_ends_in_a_cell_costs_that_cell_alone(make_job: Made, end: str, how: str) -> None:
    job, other = make_job(FINE, end, FINE), make_job(FINE, target="none")
    run = Run([job, other])
    first, lost, last = run.of(job)
    assert (first.chosen, last.chosen, run.of(other)[0].chosen) == ("fine", "fine", "fine")
    assert lost.ended is Ended.DIED
    assert f"the worker {how}" in lost.detail
    assert lost.detail.endswith("while it asked this cell")
    assert len(run.pids) == 3


def test_a_subject_that_cannot_be_imported_is_told_of_every_cell_with_the_exception(make_job: Made) -> None:
    job, other = make_job(FINE, FINE, prepare="raise RuntimeError('out of luck')"), make_job(FINE, target="none")
    run = Run([job, other])
    assert run.of(other)[0].chosen == "fine"
    assert _ended(run.of(job)) == [Ended.RAISED, Ended.RAISED]
    for seen in run.of(job):
        assert "RuntimeError: out of luck" in seen.detail
        assert [finding.rule for finding in seen.findings] == ["import"]
    assert len(run.pids) == 2


def test_an_import_that_fails_with_a_stand_in_that_was_asked_for_is_no_fault_of_the_subject(make_job: Made) -> None:
    job = make_job(FINE, prepare="raise RuntimeError('out of luck')")
    job = dataclasses.replace(job, view=dataclasses.replace(job.view, packages={"deep_ep": True}))
    (seen,) = Run([job]).of(job)
    assert seen.ended is Ended.INDETERMINATE
    assert "deep_ep" in seen.detail
    assert not seen.findings


DEATHS = {end: how for end, how in ENDS.items() if not end.startswith("raise ")}


@pytest.mark.parametrize(("end", "how"), DEATHS.items(), ids=DEATHS)
def test_a_worker_that_ends_while_it_imports_costs_its_cells_and_is_not_started_again(
    make_job: Made, end: str, how: str
) -> None:
    job, other = make_job(FINE, FINE, prepare=end), make_job(FINE, target="none")
    run = Run([job, other])
    assert run.of(other)[0].chosen == "fine"
    assert _ended(run.of(job)) == [Ended.DIED, Ended.DIED]
    for seen in run.of(job):
        assert f"the worker {how}" in seen.detail
        assert seen.detail.endswith("before it asked this cell")
    assert len(run.pids) == 2


def test_a_probe_that_cannot_be_imported_is_said_of_every_cell(make_job: Made) -> None:
    job = make_job(FINE, FINE)
    job = Job(job.target, job.view, job.cells, "no_such_probe")
    for seen in Run([job]).of(job):
        assert seen.ended is Ended.DIED
        assert "ModuleNotFoundError: No module named 'no_such_probe'" in seen.detail


def test_a_worker_that_dies_between_two_cells_costs_none(make_job: Made) -> None:
    between = "import harness.targets.worker as w; w.Started = lambda _i: os.kill(os.getpid(), signal.SIGKILL)"
    job = make_job(between, FINE, FINE)
    run = Run([job])
    assert [seen.chosen for seen in run.of(job)] == ["nothing", "fine", "fine"]
    assert len(run.pids) == 2


@pytest.mark.parametrize(
    "hang", [HANG, f"os.closerange(3, 256); {HANG}", f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANG}"]
)
def test_a_hang_costs_its_cell_and_says_how_long_it_was_waited_for(make_job: Made, hang: str) -> None:
    job, other = make_job(FINE, hang, FINE), make_job(FINE, target="none")
    run = Run([job, other], limits=Limits(cell_s=1.5))
    first, lost, last = run.of(job)
    assert (first.chosen, last.chosen, run.of(other)[0].chosen) == ("fine", "fine", "fine")
    assert lost.ended is Ended.TIMED_OUT
    assert lost.detail == "the worker gave no sign for 1.5 s and was killed while it asked this cell"


def test_a_hang_while_it_imports_costs_all_cells_of_the_target(make_job: Made) -> None:
    job = make_job(FINE, FINE, prepare=HANG)
    run = Run([job], limits=Limits(import_s=0.5, cell_s=100))
    assert _ended(run.of(job)) == [Ended.TIMED_OUT] * 2
    assert run.of(job)[0].detail == "the worker gave no sign for 0.5 s and was killed before it asked this cell"


def test_a_job_is_given_up_after_so_many_deaths(make_job: Made) -> None:
    job, other = make_job(*["os.abort()"] * 5, FINE), make_job(FINE, target="none")
    run = Run([job, other], limits=Limits(deaths=3))
    seen = run.of(job)
    assert _ended(seen) == [Ended.DIED] * 6
    assert [one.detail.startswith("given up: 3 workers") for one in seen] == [False] * 3 + [True] * 3
    assert job.cells[2].id in seen[-1].detail
    assert run.of(other)[0].chosen == "fine"
    assert len(run.pids) == 4


def test_deaths_between_cells_count_as_well(make_job: Made) -> None:
    between = "import harness.targets.worker as w; w.Started = lambda _i: os.abort()"
    job = make_job(*[between] * 4)
    run = Run([job], limits=Limits(deaths=2))
    assert _ended(run.of(job)) == [Ended.ANSWERED, Ended.ANSWERED, Ended.DIED, Ended.DIED]
    assert run.of(job)[2].detail.startswith("given up: 2 workers")


def test_the_last_death_of_a_job_gives_up_nothing(make_job: Made) -> None:
    job = make_job("os.abort()")
    run = Run([job], limits=Limits(deaths=1))
    assert "while it asked this cell" in run.of(job)[0].detail
    assert len(run.seen) == 1


@pytest.mark.parametrize("start", Start)
def test_both_ways_to_start_give_the_same_observations(make_job: Made, start: Start) -> None:
    job = make_job("answer = sorted(k for k in os.environ if k.startswith('VLLM'))", "os.abort()", FINE)
    listed, lost, fine = Run([job], start=start).of(job)
    assert (
        listed.chosen
        == "['VLLM_CACHE_ROOT', 'VLLM_LOGGING_LEVEL', 'VLLM_NO_USAGE_STATS', 'VLLM_PLUGINS', 'VLLM_TARGET_DEVICE']"
    )
    assert lost.detail == "the worker was killed by SIGABRT while it asked this cell"
    assert fine.chosen == "fine"


def test_a_report_that_raises_ends_the_run_and_its_workers(make_job: Made) -> None:
    pids: list[int] = []

    def report(*_args: object) -> None:
        raise KeyboardInterrupt

    with WorkerPool(2) as pool, pytest.raises(KeyboardInterrupt):
        pool.run([make_job(FINE, HANG), make_job(HANG, target="none")], report, pids.append)
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_scratch_folder_goes_with_the_pool(make_job: Made) -> None:
    job = make_job("answer = os.environ['VLLM_CACHE_ROOT']")
    scratch = Path(str(Run([job]).of(job)[0].chosen))
    assert scratch.name == "vllm"
    assert not scratch.parent.exists()


def test_a_worker_does_not_import_the_main_module_of_this_process(make_job: Made) -> None:
    main = sys.modules["__main__"]
    job = make_job("answer = getattr(sys.modules['__main__'], '__file__', 'none')")
    assert Run([job]).of(job)[0].chosen == "none"
    assert sys.modules["__main__"] is main


def test_what_a_worker_prints_goes_to_its_log_and_never_to_this_process(make_job: Made, tmp_path: Path) -> None:
    # in a process of its own, so that no capturing of pytest's stands between a worker and stdout
    shout = (
        "print('python'); sys.stderr.write('error'); os.write(1, b'one'); os.write(2, b'two'); os.system('echo shell')"
    )
    job = make_job(
        shout
        + "; sys.stdout.flush(); answer = open(os.path.dirname(os.environ['VLLM_CACHE_ROOT']) + '/worker.log').read()"
    )
    (tmp_path / "job.pickle").write_bytes(pickle.dumps(job))
    code = (
        "import pickle, sys; from harness.targets.pool import *; job = pickle.load(open(sys.argv[1], 'rb'))\n"
        "with WorkerPool(1, Start.FRESH) as pool: pool.run([job], lambda _j, _c, seen: print(repr(seen.chosen)))"
    )
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "job.pickle")],
        env={**os.environ, "PYTHONPATH": path},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    for word in ("python", "error", "one", "two", "shell"):
        assert word in done.stdout


@pytest.mark.parametrize("seed", range(10))
def test_a_kill_at_any_moment_loses_no_other_record_and_breaks_no_run_directory(
    make_job: Made, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    names = ["none", "cpu", "xpu"]
    jobs = [make_job(*["time.sleep(0.02); answer = 'fine'"] * 8, target=name) for name in names]
    victim = chance.randrange(len(jobs))
    timers: list[threading.Timer] = []
    subject = Subject(spec="path:.", version="0", digest="", aiter=Aiter(spec="none", mode="none"))

    def on_start(pid: int) -> None:
        timers.append(threading.Timer(chance.uniform(0, 0.5), _kill, [pid]))
        if len(timers) - 1 == victim:
            timers[-1].start()

    seen: list[tuple[str, Observation]] = []
    with RunWriter(tmp_path / "run", _manifest(subject, sum(len(job.cells) for job in jobs)), "main") as writer:

        def report(_job: Job, cell: Cell, one: Observation) -> None:
            seen.append((cell.id, one))
            writer.write(judge(cell, one, subject.options, None, None))

        with WorkerPool(len(jobs)) as pool:
            pool.run(jobs, report, on_start)
    for timer in timers:
        timer.cancel()
    asked = [cell.id for job in jobs for cell in job.cells]
    assert Counter(name for name, _ in seen) == Counter(asked)
    lost = {name for name, one in seen if one.ended is not Ended.ANSWERED}
    own = {cell.id for cell in jobs[victim].cells}
    assert lost <= own
    assert len(lost) in (0, 1, len(own))
    run = read_run(tmp_path / "run")
    assert run.notes == ()
    assert {record.id for record in run.records} == set(asked)
    assert {record.id for record in run.records if record.outcome.is_bad} == lost


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _manifest(subject: Subject, cells: int) -> Manifest:
    return Manifest(
        gfxloop="0",
        harness_digest="",
        started="2026-01-01T00:00:00+00:00",
        finished=None,
        command="",
        subject=subject,
        matrix_digest="",
        targets=(),
        tiers=("route",),
        versions={},
        cells=cells,
    )
