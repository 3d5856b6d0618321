"""The pool of isolated workers: one process per job, from a fork server that has the third-party modules loaded.

In: jobs. Out: one observation for every cell, whatever becomes of a worker: a crash, a hang or a kill costs the cell
that was being asked, and the rest of the job goes on in a new worker. Nothing here knows what a cell means.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import tempfile
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from harness.model.cell import Cell
from harness.model.record import Ended, Observation
from harness.targets.worker import Answered, Job, Message, Ready, Started, Unprepared, serve


class Start(StrEnum):
    """How a worker starts. Both give the same observations (a test says so); the fork server is faster."""

    FORK_SERVER = "forkserver"
    FRESH = "spawn"


@dataclass(frozen=True)
class Limits:
    """Patience with a worker."""

    import_s: float = 300.0
    """Until the subject is imported."""
    cell_s: float = 60.0
    """For one cell."""
    deaths: int = 3
    """Workers that one job may lose before the rest of its cells are given up."""


@dataclass
class _Worker:
    job: Job
    process: BaseProcess
    pipe: Connection
    log: Path
    deadline: float
    deaths: int
    ready: bool = False
    asked: int | None = None
    answered: int = 0
    """Cells before this index have an observation."""
    killed: bool = False


_TAIL_BYTES = 65_536
"""How much of a worker's log is read: a subject may print without end."""

Report = Callable[[Job, Cell, Observation], None]


class WorkerPool:
    """Runs jobs, at most ``size`` at once. Use as a context manager: the scratch folder goes with it."""

    def __init__(self, size: int, start: Start = Start.FORK_SERVER, limits: Limits | None = None) -> None:
        self._size = max(1, size)
        self._limits = limits or Limits()
        # typed as Any: typeshed gives each context its own Process type
        self._context: Any = multiprocessing.get_context(start.value)
        if start is Start.FORK_SERVER:
            self._context.set_forkserver_preload(["harness.targets.preload"])
        self._scratch = tempfile.TemporaryDirectory(prefix="gfxloop-")

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_error: object) -> None:
        self._scratch.cleanup()

    def run(self, jobs: Iterable[Job], report: Report, on_start: Callable[[int], None] = lambda _pid: None) -> None:
        """Run the jobs. ``report`` gets each cell's observation once, in the order the workers answer.

        Args:
            jobs: the work; jobs without cells are skipped.
            report: called in this process with (job, cell, observation).
            on_start: called with the process id of each worker that starts.
        """
        waiting = deque((job, 0) for job in jobs if job.cells)
        live: list[_Worker] = []
        try:
            while waiting or live:
                while waiting and len(live) < self._size:
                    worker = self._start(*waiting.popleft())
                    live.append(worker)
                    on_start(worker.process.pid or 0)
                self._pump(live, report)
                for worker in [w for w in live if w.process.exitcode is not None]:
                    self._drain(worker, report)
                    live.remove(worker)
                    waiting.extendleft(self._bury(worker, report))
        finally:
            for worker in live:
                worker.process.kill()
                worker.process.join()

    def _start(self, job: Job, deaths: int) -> _Worker:
        root = Path(tempfile.mkdtemp(dir=self._scratch.name))
        receiver, sender = self._context.Pipe(duplex=False)
        log = root / "worker.log"
        process = self._context.Process(target=serve, args=(job, sender, root, log), daemon=True)
        with _no_main_module():
            process.start()
        sender.close()
        return _Worker(job, process, receiver, log, time.monotonic() + self._limits.import_s, deaths)

    def _pump(self, live: list[_Worker], report: Report) -> None:
        """Wait for the next message, death or deadline, and act on it."""
        handles: dict[Any, _Worker] = {w.process.sentinel: w for w in live}
        handles.update({w.pipe: w for w in live if not w.pipe.closed})
        patience = max(0.0, min(w.deadline for w in live) - time.monotonic())
        ready = wait(list(handles), timeout=patience)
        for worker in {id(handles[handle]): handles[handle] for handle in ready}.values():
            self._drain(worker, report)
        for worker in live:
            if not worker.killed and worker.process.exitcode is None and time.monotonic() >= worker.deadline:
                worker.killed = True
                worker.process.kill()
                worker.process.join()

    def _drain(self, worker: _Worker, report: Report) -> None:
        while not worker.pipe.closed:
            try:
                if not worker.pipe.poll():
                    return
                message = worker.pipe.recv()
            except (EOFError, OSError):
                worker.pipe.close()  # the exit status follows, or the deadline does
                return
            self._receive(worker, message, report)

    def _receive(self, worker: _Worker, message: Message, report: Report) -> None:
        worker.deadline = time.monotonic() + self._limits.cell_s
        match message:
            case Ready():
                worker.ready = True
            case Unprepared(observation):
                for cell in worker.job.cells:
                    report(worker.job, cell, observation)
                worker.answered = len(worker.job.cells)
            case Started(index):
                worker.asked = index
            case Answered(index, observation):
                worker.asked = None
                worker.answered = index + 1
                report(worker.job, worker.job.cells[index], observation)

    def _bury(self, worker: _Worker, report: Report) -> list[tuple[Job, int]]:
        """Account for what a worker left unanswered. Returns the rest of its job, to be started again."""
        worker.pipe.close()
        cells = worker.job.cells
        if worker.answered == len(cells):
            return []
        ended, how = self._cause(worker)
        rest = cells[worker.answered :]
        if not worker.ready:  # it never got as far as a cell: each of them would meet the same end
            for cell in rest:
                report(worker.job, cell, Observation(ended=ended, detail=f"the worker {how} before it asked this cell"))
            return []
        last = rest[0].id
        if worker.asked is not None:
            report(worker.job, rest[0], Observation(ended=ended, detail=f"the worker {how} while it asked this cell"))
            rest = rest[1:]
        deaths = worker.deaths + 1
        if deaths >= self._limits.deaths:
            detail = f"given up: {deaths} workers of this target died, the last one {how} at {last}"
            for cell in rest:
                report(worker.job, cell, Observation(ended=Ended.DIED, detail=detail))
            return []
        return [(replace(worker.job, cells=rest), deaths)] if rest else []

    def _cause(self, worker: _Worker) -> tuple[Ended, str]:
        if worker.killed:
            limit = self._limits.cell_s if worker.ready else self._limits.import_s
            return Ended.TIMED_OUT, f"gave no sign for {limit:g} s and was killed"
        code = worker.process.exitcode or 0
        names = {known.value: known.name for known in signal.Signals}  # it has no real-time signals
        how = f"was killed by {names.get(-code, f'signal {-code}')}" if code < 0 else f"ended with status {code}"
        last = _last_line(worker.log)
        return Ended.DIED, how + (f" ({last})" if last else "")


def _last_line(log: Path) -> str:
    """The exception that ended the worker, where its log ends in a traceback; other last words are no cause."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace").strip()
    told = "Traceback (most recent call last)" in text or "Fatal Python error" in text
    return text.splitlines()[-1].strip()[:300] if told else ""


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Start a worker without importing this process's ``__main__`` in it (pytest's, or the command's)."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
