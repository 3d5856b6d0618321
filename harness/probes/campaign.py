"""One run, from the words of a command line to records: the matrix, the subject, the cells chosen, and the engine.

In: a ``Request``. Out: a ``Campaign`` that yields records. The command line and the pytest plugin both stand on it, so
that the same words give the same cells and the same records in either. It must not print or write.
"""

from __future__ import annotations

import datetime
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import harness
from harness.bundled import matrix_path
from harness.matrix import Matrix, drop_contradicting, load_matrix, select
from harness.model.cell import Cell
from harness.model.errors import NothingSelectedError, UnservableError, UsageError, located, nearest
from harness.model.record import Observation, Record
from harness.model.run import Manifest
from harness.probes.cache import harness_digest
from harness.probes.engine import Engine
from harness.probes.invariants import Seen, partners
from harness.probes.judge import judge
from harness.subjects import Located, Progress, parse_env, parse_packages, resolve
from harness.targets.facts import TARGETS
from harness.targets.packages import OPTIONAL_PACKAGES

DEFAULT_SUBJECT = "pypi:0.33.0"
DEFAULT_AITER = "stand-in"

_VERSIONS = ("torch", "triton", "transformers", "compressed-tensors", "pandas")
"""Distributions whose version a manifest states: those that a worker's answers lean on most."""


@dataclass(frozen=True)
class Request:
    """What the user asked for, in the user's words."""

    matrix: Path
    subject: str = DEFAULT_SUBJECT
    aiter: str = DEFAULT_AITER
    env: tuple[str, ...] = ()
    """Words ``K=V``."""
    packages: str = ""
    """``+flash_attn,-flashinfer``."""
    targets: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The cells that a request means."""

    matrix: Matrix
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Campaign:
    """A request, resolved."""

    request: Request
    matrix: Matrix
    located: Located
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    """What the user should know of the selection."""
    engine: Engine

    @cached_property
    def partners(self) -> Mapping[str, tuple[Cell, ...]]:
        """By cell id: the cells of this campaign that the cell has to agree with."""
        return partners(self.cells)

    def record(self, cell: Cell, seen: Observation, others: tuple[Seen, ...] = ()) -> Record:
        """Judge one observation against the invariants and the matrix; ``others`` are its partners'."""
        subject = self.located.subject
        expected = self.matrix.expected(cell, aiter=subject.aiter.mode != "none")
        options = subject.options
        if self.request.matrix != matrix_path():
            options += f" --matrix {shlex.quote(str(self.request.matrix))}"
        known, excepted = self.matrix.known_failure(cell), self.matrix.exceptions(cell)
        return judge(cell, seen, options, expected, known, others=others, excepted=excepted)

    def run(self, report: Callable[[Record], None]) -> tuple[Record, ...]:
        """Ask all cells. ``report`` gets each record when it and its partners are there; the result is in order."""
        seen: dict[str, Observation] = {}
        found: dict[str, Record] = {}

        def on_answer(cell: Cell, one: Observation) -> None:
            seen[cell.id] = one
            for ready in (cell, *self.partners.get(cell.id, ())):
                others = self.partners.get(ready.id, ())
                if ready.id in seen and all(other.id in seen for other in others):
                    about = tuple((other, seen[other.id]) for other in others)
                    found[ready.id] = self.record(ready, seen[ready.id], about)
                    report(found[ready.id])

        self.engine.observe(self.cells, on_answer)
        return tuple(found[cell.id] for cell in self.cells)

    def manifest(self, command: str, started: str) -> Manifest:
        """What the run says of itself, before it is finished."""
        targets = {cell.target.name: cell.target for cell in self.cells}
        return Manifest(
            gfxloop=harness.__version__,
            harness_digest=harness_digest(),
            started=started,
            finished=None,
            command=command,
            subject=self.located.subject,
            matrix_digest=self.matrix.digest,
            targets=tuple(f"{name} simulated ({target.fact.words})" for name, target in targets.items()),
            tiers=tuple(dict.fromkeys(cell.tier.value for cell in self.cells)),
            versions=installed_versions(),
            cells=len(self.cells),
        )


def open_campaign(
    request: Request, choice: Choice, *, cache: Path, progress: Progress, observations: bool = True
) -> Campaign:
    """Find the subject for cells that are chosen already: a wrong word is told before anything is fetched.

    Args:
        request: the user's words.
        choice: the cells they mean (see ``choose``).
        cache: folder for subjects and observations.
        progress: is told of downloads.
        observations: whether answers may come from the cache and go there.

    Raises:
        UsageError: a word is wrong.
        UnservableError: the subject cannot be had, or the workers' requirements are not installed.
    """
    packages = parse_packages(request.packages, OPTIONAL_PACKAGES)
    require_stack()
    found = resolve(
        request.subject,
        aiter=request.aiter,
        env=parse_env(request.env),
        packages=packages,
        cache=cache,
        progress=progress,
    )
    _check_variables(choice, found, parse_env(request.env))
    folder = cache / "observations" if observations else None
    return Campaign(request, choice.matrix, found, choice.cells, choice.notes, Engine(found, folder))


def _check_variables(choice: Choice, found: Located, env: dict[str, str]) -> None:
    """A variable of ``--env`` that neither the subject nor the matrix knows is a slip of the pen.

    Raises:
        UsageError: a ``VLLM_`` variable that ``vllm/envs.py`` does not name.
    """
    path = found.tree / "vllm" / "envs.py"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    known = set(re.findall(r"\bVLLM_[A-Z0-9_]+", text)) | {name for cell in choice.cells for name in cell.env}
    for name in env:
        if text and name.startswith("VLLM_") and name not in known:
            where, what = f"--env {name}", "this vLLM knows no such variable"
            raise UsageError(located(where, what, hint=nearest(name, known)))


def choose(request: Request, today: datetime.date) -> Choice:
    """The cells that a request means, without a subject.

    Raises:
        MatrixError, UsageError: the words or the matrix are wrong.
        NothingSelectedError: no cell is left.
    """
    matrix = load_matrix(request.matrix, TARGETS, today)
    kept, notes = drop_contradicting(matrix.cells, parse_env(request.env))
    try:
        cells = select(
            kept,
            targets=request.targets,
            tiers=request.tiers,
            kernels=request.kernels,
            models=request.models,
            environments=request.environments,
            ids=request.ids,
            all_targets=TARGETS.values(),
        )
    except (NothingSelectedError, UsageError) as error:
        raise type(error)(" ".join([str(error), *(f"Note: {note}." for note in notes)])) from error
    return Choice(matrix, cells, notes)


def with_cells(campaign: Campaign, cells: Sequence[Cell]) -> Campaign:
    """The same campaign over other cells."""
    return replace(campaign, cells=tuple(cells))


def installed_versions() -> dict[str, str]:
    """Versions that a worker runs with; the absent are left out."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _VERSIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def require_stack() -> None:
    """Say what is missing before a worker fails for it.

    Raises:
        UnservableError: torch or another requirement of vLLM is not installed.
    """
    missing = [name for name in ("torch", "transformers") if name not in installed_versions()]
    if missing:
        lock = Path(harness.__file__).parent / "subjects" / "vllm-requirements.txt"
        hint = f"Run: {sys.executable} -m pip install -r {lock}"
        raise UnservableError(located("simulated targets", f"{' and '.join(missing)} not installed here", hint=hint))
