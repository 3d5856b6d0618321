"""What routing costs, against importing vLLM once, a fresh process for each target, and a first run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.bundled import matrix_path
from harness.probes.campaign import Campaign, Request, choose, open_campaign
from harness.probes.engine import Engine
from harness.records.writer import utc_today
from harness.subjects import progress_on
from harness.targets.home import cache_folder
from harness.targets.pool import Start

Measured = tuple[float, float, str]
"""(seconds of ours, seconds of what it is compared with, what is compared)"""

_IMPORT = """
import sys
from pathlib import Path
from harness.probes import route
from harness.targets.facts import TARGETS
from harness.targets.simulated import View, install
target = TARGETS["gfx942/MI300X"]
route.prepare(install(target, View(Path(sys.argv[1]), sys.argv[2], "stand-in", None, {}), Path(sys.argv[3])))
import vllm.model_executor.kernels.linear
"""
"""Importing vLLM once: its configuration, its platform and its linear kernels, in a fresh process."""


def _seconds(command: list[str], env: Mapping[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
    took = time.perf_counter() - started
    if done.returncode not in (0, 1) or (done.returncode == 1 and "gfxloop: FAILED" not in done.stdout):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return took


def _gfxloop(*words: str) -> list[str]:
    return [sys.executable, "-c", "from harness.cli import main; main()", *words]


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gfxloop-bench-") as name:
        yield Path(name)


def _campaign(request: Request) -> Campaign:
    return open_campaign(request, choose(request, utc_today()), cache=cache_folder(), progress=progress_on(sys.stderr))


def _subject() -> tuple[Path, str]:
    """The default subject's tree, downloaded before anything is measured."""
    campaign = _campaign(Request(matrix=matrix_path(), targets=("cpu",)))
    return campaign.located.tree, campaign.located.subject.version


def edited_file() -> Measured:
    """After one edited file of the subject, ``check --target gfx942 --tier route`` against importing vLLM once."""
    tree, version = _subject()
    with _scratch() as scratch:
        copy = scratch / "vllm-copy"
        shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("tests", "docs", "examples"))
        cache = {"GFXLOOP_CACHE": str(scratch / "cache")}
        check = _gfxloop("check", "--subject", f"path:{copy}", "--target", "gfx942", "--tier", "route", "--out")
        _seconds([*check, str(scratch / "first")], cache)  # compiles the copy's bytecode, as any earlier run would
        edited = copy / "vllm/model_executor/kernels/linear/scaled_mm/pytorch.py"
        edited.write_text(edited.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
        ours = _seconds([*check, str(scratch / "second")], cache)
        importing = [sys.executable, "-c", _IMPORT, str(copy), version, str(scratch)]
        theirs = min(_seconds(importing, {}) for _ in range(2))
    return ours, theirs, "check of gfx942 after one edited file / importing vLLM once in a fresh process"


def all_targets_cold() -> Measured:
    """Routing all targets from cold against a fresh process for each target in turn, one environment each."""
    request = Request(matrix=matrix_path(), models=("qwen3-0.6b",), environments=("aiter_off", "default"))
    campaign = _campaign(request)

    def took(start: Start, workers: int) -> float:
        engine = Engine(campaign.located, cache=None, workers=workers, start=start)
        started = time.perf_counter()
        engine.observe(campaign.cells, lambda _cell, _seen: None)
        return time.perf_counter() - started

    ours = took(Start.FORK_SERVER, Engine(campaign.located, None).workers)
    theirs = took(Start.FRESH, 1)
    targets = len({cell.target.name for cell in campaign.cells})
    return ours, theirs, f"{targets} targets from the fork server / a fresh process for each in turn"


def second_run() -> Measured:
    """A second check of an unchanged subject against the first, all cells of the matrix."""
    _subject()
    with _scratch() as scratch:
        cache = {"GFXLOOP_CACHE": str(scratch / "cache")}
        shutil.copytree(cache_folder() / "subjects", scratch / "cache" / "subjects", symlinks=True)
        first = _seconds(_gfxloop("check", "--out", str(scratch / "first")), cache)
        second = _seconds(_gfxloop("check", "--out", str(scratch / "second")), cache)
    return second, first, "second check of an unchanged subject / first check"


def full_check() -> Measured:
    """A check of every cell of the matrix, past every cache, against importing vLLM once."""
    tree, version = _subject()
    with _scratch() as scratch:
        importing = [sys.executable, "-c", _IMPORT, str(tree), version, str(scratch)]
        theirs = min(_seconds(importing, {}) for _ in range(2))
        ours = _seconds(_gfxloop("check", "--no-cache", "--out", str(scratch / "run")), {})
    return ours, theirs, "check of every cell on every target, nothing cached / importing vLLM once in a fresh process"


def help_page() -> Measured:
    """``gfxloop --help`` against its limit of 0.3 s; the best of five, since the machine is shared."""
    ours = min(_seconds(_gfxloop("--help"), {}) for _ in range(5))
    return ours, 0.3, "gfxloop --help / 0.3 s"


BENCHMARKS: Mapping[str, tuple[float, Callable[[], Measured]]] = {
    "help_page": (1.0, help_page),
    "edited_file": (2.0, edited_file),
    "all_targets_cold": (0.25, all_targets_cold),
    "second_run": (0.10, second_run),
    "full_check": (40.0, full_check),
}
"""Name -> (the largest ratio that is acceptable, the benchmark)."""
