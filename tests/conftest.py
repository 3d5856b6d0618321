"""What tests of several folders share: real releases, the matrix, and the answers of real vLLM, asked once a test run.

A worker that imports vLLM costs seconds, so answers go through one observation cache that all xdist processes of a test
run share, and that goes with it: nothing of an earlier test run is ever believed.
"""

from __future__ import annotations

import datetime
import functools
import importlib.util
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from harness.bundled import matrix_path
from harness.matrix import Matrix, load_matrix, select
from harness.model.cell import Cell, Kernel, Layer, Surface, Tier
from harness.model.record import Record
from harness.probes.campaign import Campaign, Request
from harness.probes.engine import Engine
from harness.subjects import Located, progress_on, resolve
from harness.targets.facts import TARGETS
from harness.targets.home import cache_folder

TODAY = datetime.date(2026, 1, 1)
TESTS = Path(__file__).parent
SHARED = TESTS.parents[1] / "shared"
SCRIPTED_PROBE = "scripted_probe"

Routed = Callable[..., dict[str, Record]]


@pytest.fixture(scope="session")
def located() -> Callable[..., Located]:
    """``located("0.31.0", aiter="none")``: a release of vLLM, fetched once into the user's own cache."""

    @functools.cache
    def find(version: str = "0.33.0", aiter: str = "stand-in") -> Located:
        progress = progress_on(io.StringIO())
        return resolve(f"pypi:{version}", aiter=aiter, env={}, packages={}, cache=cache_folder(), progress=progress)

    return find


@pytest.fixture(scope="session")
def vllm_tree(located: Callable[..., Located]) -> Path:
    """The tree of the default release."""
    return located().tree


@pytest.fixture(scope="session")
def replay_list() -> Path:
    """Faults that were released, by bad and by fixed release."""
    path = SHARED / "replays.json"
    if not path.is_file():
        pytest.skip(f"no list of released faults on this machine: no {SHARED.name}/{path.name} beside the clone")
    return path


@pytest.fixture(scope="session")
def aiter_tables() -> Path:
    """AITER's real tuned tables."""
    folder = SHARED / "aiter-configs"
    if not folder.is_dir():
        pytest.skip(f"AITER's tuned tables are not on this machine: no {SHARED.name}/{folder.name} beside the clone")
    return folder


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """The repository's own matrix."""
    return load_matrix(matrix_path(), TARGETS, TODAY)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run that its xdist processes share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def routed(located: Callable[..., Located], matrix: Matrix, shared_folder: Path) -> Routed:
    """``routed("0.28.0", {"targets": ["gfx1100"], "kernels": ["allowlist"]})``: records of the cells chosen, by id.

    All that is asked of one target and environment in one call takes one worker.
    """

    def ask(version: str, *selections: Mapping[str, Sequence[str]], aiter: str = "stand-in") -> dict[str, Record]:
        found = located(version, aiter)
        cells = [cell for words in selections for cell in select(matrix.cells, **words)]
        engine = Engine(found, shared_folder / "observations")
        campaign = Campaign(Request(matrix.path), matrix, found, cells, (), engine)
        seen = {key: one for group in engine.groups(cells) for key, one in engine.observe_group(group).items()}
        return {cell.id: campaign.record(cell, seen[cell.id]) for cell in cells}

    return ask


@pytest.fixture(scope="session")
def on_gfx942(routed: Routed) -> Callable[[str], dict[str, Record]]:
    """``on_gfx942("0.31.0")``: everything that is asked of MI300X but most models, with AITER off and on."""
    off, on = ({"targets": ["gfx942/MI300X"], "environments": [name]} for name in ("aiter_off", "aiter_on"))

    def ask(version: str) -> dict[str, Record]:
        return routed(
            version,
            {**off, "kernels": ["platform", "allowlist", "guard", "aiter_gate"]},
            {**off, "kernels": ["linear"], "models": ["qwen3-0.6b"]},
            {**on, "kernels": ["aiter_gate"]},
            {**on, "kernels": ["linear"], "models": ["qwen3-0.6b"]},
            {**on, "kernels": ["tuned_gate"], "models": ["deepseek-v3"]},
        )

    return ask


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """The sample runs of ``tests/report/sample_runs.py``, loaded by path since test folders are no packages."""
    spec = importlib.util.spec_from_file_location("sample_runs", TESTS / "report" / "sample_runs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., Cell]:
    """Makes a cell; what is not given is plain."""

    def make(
        name: str = "kernel",
        *,
        target: str = "cpu",
        surface: Surface = Surface.LINEAR,
        family: str = "family",
        scheme: Mapping[str, str | int | bool] | None = None,
        environment: str = "default",
        env: Mapping[str, str] | None = None,
        layer: Layer | None = None,
    ) -> Cell:
        tier = Tier.GUARD if surface is Surface.GUARD else Tier.ROUTE
        kernel = Kernel(name, surface, family, scheme or {})
        model, tp = ("model", 1) if layer else (None, None)
        return Cell(tier, TARGETS[target], environment, env or {}, kernel, model, tp, layer)

    return make


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a probe that workers can import: it runs the code that stands in a cell's scheme under ``do``."""
    monkeypatch.syspath_prepend(TESTS / "targets")
    return SCRIPTED_PROBE


@pytest.fixture(scope="session")
def tiny_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vLLM tree with nothing in it, which imports in no time."""
    tree = tmp_path_factory.mktemp("tiny")
    (tree / "vllm").mkdir()
    (tree / "vllm" / "__init__.py").write_text("")
    return tree
