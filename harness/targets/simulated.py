"""The simulated device: makes this process look like a machine with ``target``, before vLLM is imported.

In: a target and how the subject is to be seen. Out: a ``Simulation`` whose journal tells what was asked and could not
be known. It changes this process for good, so it belongs in a worker; vLLM fixes the target when it is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.subject import AiterMode
from harness.model.target import Platform, Target
from harness.targets import build, drivers, packages
from harness.targets.aiter import AiterStandIn
from harness.targets.aiter_tree import install_aiter_tree
from harness.targets.effects import Watcher
from harness.targets.journal import Journal
from harness.targets.queries import queries_of


@dataclass(frozen=True)
class View:
    """How the subject is seen by a worker: all that decides routing beside the target. Picklable."""

    tree: Path
    """Directory that contains ``vllm/``."""
    version: str
    aiter: AiterMode
    aiter_path: Path | None
    """AITER's tree or the folder of its tables; None for ``none`` and ``stand-in``."""
    env: Mapping[str, str]
    packages: Mapping[str, bool] = field(default_factory=dict)


@dataclass
class Simulation:
    """A simulated device that is installed in this process."""

    target: Target
    view: View
    journal: Journal
    stand_in: AiterStandIn | None
    keep: list[object]
    """Objects that must live as long as the process (torch libraries)."""
    lacking: str = ""
    """Why vLLM has no configuration in this process, in words; empty where it has one, or needs none."""
    operators_from: str = ""
    """Where the operators of the build come from, in words; empty where they are the subject's own."""

    @property
    def tables(self) -> Path | None:
        """Folder of AITER's tuned tables, where the subject has one."""
        return self.view.aiter_path if self.view.aiter == "tables" else None


FIXED_ENV: Mapping[str, str] = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_PLUGINS": "",
}
"""Set in every worker: quiet, offline, no plugin of this machine."""

_DECIDING = (
    "VLLM_",
    "AITER_",
    "HIP_",
    "CUDA_",
    "ROCR_",
    "TRITON_",
    "TORCHINDUCTOR_",
    "FLASH_ATTENTION_",
    "GPU_",
    "CU_",
    "XPU_",
    "TORCH_",
)
"""Prefixes of variables that can decide routing: those of this machine never reach a worker."""


def worker_environment(
    machine: Mapping[str, str], target: Target, env: Mapping[str, str], scratch: Path
) -> dict[str, str]:
    """The environment of a worker: this machine's without what decides routing, plus the cell's."""
    kept = {name: value for name, value in machine.items() if not name.startswith(_DECIDING)}
    own = {"VLLM_CACHE_ROOT": str(scratch / "vllm")}
    if target.platform is Platform.CPU:
        own["VLLM_TARGET_DEVICE"] = "cpu"
    return {**kept, **FIXED_ENV, **own, **env}


def install(target: Target, view: View, scratch: Path) -> Simulation:
    """Install the simulated device in this process.

    Args:
        target: what to simulate.
        view: the subject as this worker sees it.
        scratch: a folder that goes with the run.

    Raises:
        RuntimeError: vLLM was imported already: its platform is fixed, and nothing can undo that.
    """
    if "vllm" in sys.modules:
        raise RuntimeError("a target can only be simulated before vllm is imported; use a fresh worker")
    environment = worker_environment(os.environ, target, view.env, scratch)
    os.environ.clear()
    os.environ.update(environment)
    journal, patch = Journal(), drivers.Lasting()
    sys.path.insert(0, str(view.tree))
    watcher = Watcher(view.tree, journal)
    drivers.install_drivers(target, patch, watcher.initialises)
    stand_in = _install_aiter(target, view, journal, scratch)
    _install_packages(target, view, journal)
    declared = build.declared_build(view.tree, target)
    keep = build.register(declared, queries_of(target), journal)
    for name in build.NATIVE_MODULES[target.platform]:
        drivers.stand_in_module(f"vllm.{name}", patch)
    sys.meta_path.insert(0, drivers.NvmlFinder(target, view.tree))
    watcher.install(patch)
    return Simulation(target, view, journal, stand_in, keep, operators_from=declared.source)


def _install_aiter(target: Target, view: View, journal: Journal, scratch: Path) -> AiterStandIn | None:
    if target.platform is not Platform.ROCM or view.aiter == "none":
        return None
    if view.aiter in ("path", "installed"):
        assert view.aiter_path is not None
        install_aiter_tree(target, view.aiter_path, scratch)
        return None
    stand_in = AiterStandIn(target, view.aiter_path, journal, scratch)
    stand_in.install()
    return stand_in


def _install_packages(target: Target, view: View, journal: Journal) -> None:
    presence = packages.packages_of(target.platform, view.packages)
    for name, present in presence.items():
        if present:
            sys.meta_path.insert(0, packages.StandInFinder(name, journal))
    absent = [*packages.ALWAYS_ABSENT, *(name for name, present in presence.items() if not present)]
    private = [name for name, homes in packages.VENDOR_MODULES.items() if target.platform not in homes]
    if target.platform is not Platform.ROCM or view.aiter == "none":
        absent.append("aiter")
    packages.AbsentFinder(absent, private, view.tree, journal).install()
    sys.meta_path.insert(0, packages.VllmMetadata(packages.built_version(view.version, target.platform)))
