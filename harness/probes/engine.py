"""The engine: cells in, observations out, by way of the cache and the pool of isolated workers.

In: a located subject and cells. Out: one observation for each cell. It groups cells by (target, environment), asks the
cache first, and runs the rest. It must not judge, print or write reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from harness.model.cell import Cell
from harness.model.record import Ended, Observation
from harness.model.target import Platform, Target
from harness.probes.cache import ObservationCache, cell_digest, job_digest
from harness.subjects import Located
from harness.targets.build import built_for
from harness.targets.packages import packages_of
from harness.targets.pool import Limits, Start, WorkerPool
from harness.targets.simulated import View
from harness.targets.worker import Job

PROBE = "harness.probes.route"
"""The module that answers cells of the tiers ``guard`` and ``route`` inside a worker."""

Report = Callable[[Cell, Observation], None]


@dataclass(frozen=True)
class Group:
    """The cells of one worker: one target, one environment."""

    target: Target
    env: tuple[tuple[str, str], ...]
    cells: tuple[Cell, ...]
    digest: str


@dataclass
class Engine:
    """Asks a subject. Threads and processes may each have their own: the cache is safe to share."""

    located: Located
    cache: Path | None
    """Folder of the observation cache; None for none."""
    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    start: Start = Start.FORK_SERVER
    limits: Limits = field(default_factory=Limits)
    probe: str = field(default_factory=lambda: PROBE)
    """Module that answers the cells inside a worker."""
    on_start: Callable[[int], None] = lambda _pid: None
    """Told the process id of each worker that starts."""

    def groups(self, cells: Iterable[Cell]) -> list[Group]:
        """Cells by worker, in the order in which each group's first cell comes."""
        found: dict[tuple[Target, tuple[tuple[str, str], ...]], list[Cell]] = {}
        for cell in cells:
            env = tuple(sorted({**cell.env, **self.located.subject.env}.items()))
            found.setdefault((cell.target, env), []).append(cell)
        return [
            Group(target, env, tuple(members), self._digest(target, env)) for (target, env), members in found.items()
        ]

    def observe(self, cells: Sequence[Cell], report: Report) -> None:
        """Answer every cell; ``report`` gets each one once, cached answers first."""
        cache = ObservationCache(self.cache)
        missing: list[Job] = []
        digests: dict[int, str] = {}
        built = built_for(self.located.tree)
        for group in self.groups(cells):
            if built is not None and group.target.platform is Platform.ROCM and group.target.gfx not in built:
                for cell in group.cells:
                    report(cell, _unbuilt(group.target))
                continue
            kept = cache.load(group.digest)
            left = []
            for cell in group.cells:
                seen = kept.get(cell_digest(cell))
                if seen is None:
                    left.append(cell)
                else:
                    report(cell, seen)
            if left:
                job = Job(group.target, self._view(group), tuple(left), self.probe, self.located.is_own_copy)
                missing.append(job)
                digests[id(job.view)] = group.digest
        if missing:
            self._run(missing, digests, cache, report)

    def observe_group(self, group: Group) -> dict[str, Observation]:
        """Answer one group, by cell id. Of several processes that ask at once, one works and the others wait."""
        seen: dict[str, Observation] = {}
        lock: AbstractContextManager[object] = nullcontext()
        if self.cache is not None:
            self.cache.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.cache / f"{group.digest[:2]}.lock")
        with lock:
            self.observe(group.cells, lambda cell, one: seen.update({cell.id: one}))
        return seen

    def _run(self, jobs: list[Job], digests: dict[int, str], cache: ObservationCache, report: Report) -> None:
        """Run jobs. A worker that goes on with the rest of a job shares its view, and so its digest."""
        kept: dict[str, dict[str, Observation]] = {}
        left = {digests[id(job.view)]: len(job.cells) for job in jobs}

        def on_answer(job: Job, cell: Cell, seen: Observation) -> None:
            digest = digests[id(job.view)]
            kept.setdefault(digest, {})[cell_digest(cell)] = seen
            report(cell, seen)
            left[digest] -= 1
            if not left[digest]:
                cache.save(digest, kept.pop(digest))

        try:
            with WorkerPool(self.workers, self.start, self.limits) as pool:
                pool.run(jobs, on_answer, self.on_start)
        finally:
            for digest, seen in kept.items():  # interrupted: what is there need not be asked again
                cache.save(digest, seen)

    def _view(self, group: Group) -> View:
        located = self.located
        return View(
            tree=located.tree,
            version=located.subject.version,
            aiter=located.subject.aiter.mode,
            aiter_path=located.aiter_tree or located.aiter_tables,
            env=dict(group.env),
            packages=located.subject.packages,
        )

    def _digest(self, target: Target, env: tuple[tuple[str, str], ...]) -> str:
        subject = self.located.subject
        return job_digest(subject, target, dict(env), packages_of(target.platform, subject.packages))


def _unbuilt(target: Target) -> Observation:
    """A target that the release is not built for: whatever its Python would answer there, nobody can run it."""
    why = f"{target.gfx} is not in HIP_SUPPORTED_ARCHS of its CMakeLists.txt: this vLLM is not built for the target"
    return Observation(ended=Ended.UNSUPPORTED, detail=why)
