"""A simulated target inside this process, for one test at a time: everything is taken back at the end.

In: a target's name and the module of the test. Out: while the block runs, ``import vllm`` gives a vLLM that was
imported under the target, so that its own predicates answer; nothing of vLLM is patched. A vLLM that was imported
before is set aside for the while, and names of it that other modules hold are rebound. What cannot be taken back or
rebound is refused, with the places that hinder it; nothing is answered half.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.model.errors import UnservableError, UsageError, located, nearest
from harness.model.target import Platform, Target
from harness.subjects.identity import version_of
from harness.targets import build, drivers, packages, rebinding
from harness.targets.facts import TARGETS
from harness.targets.journal import Journal
from harness.targets.queries import queries_of
from harness.targets.torch_registry import Registrations

ADVICE = (
    "Import vLLM inside the test, or run the test in a process in which nothing imports vLLM before it "
    "(a file of its own without vLLM's conftest.py, or `gfxloop check` for the routes themselves)."
)
_ROOTS = frozenset({rebinding.SUBJECT, "aiter", "amdsmi", "pynvml", *packages.OPTIONAL_PACKAGES})
"""Top-level modules that differ from target to target: imported afresh, and dropped at the end."""

_BEFORE = ("torch.utils.cpp_extension", "torch._inductor.lowering")
"""Modules of torch that fix the platform when they are imported, so they must see the real machine first."""

_CACHING = frozenset({"torch", "triton", "transformers"})
"""Packages whose functions remember what the device answered (``functools.cache``)."""

_SHOWN = 5
"""How many places an error or a warning lists."""


class InProcessError(UnservableError):
    """The target cannot be simulated in this process, as it is now."""


class SimulationLimitWarning(UserWarning):
    """vLLM asked something that the simulation cannot know; an answer that hangs on it decides nothing."""


def find_target(name: str) -> Target:
    """The target of a name: ``gfx942`` (its usual product), ``gfx942/MI308X``, ``sm90``, ``xpu``, ``cpu``.

    Raises:
        UsageError: no such target.
    """
    usual = {target.gfx: target for target in TARGETS.values() if target.default}
    known = {**TARGETS, **usual}
    if name not in known:
        raise UsageError(located("simulated_target", "no such target", got=name, hint=nearest(name, known)))
    return known[name]


@contextlib.contextmanager
def simulated(target: Target, test: types.ModuleType | None = None) -> Iterator[Target]:
    """Make this process look like a machine with ``target`` while the block runs.

    A block for the same target inside it changes nothing.

    Args:
        target: what to simulate.
        test: the module of the test, whose names of vLLM must answer as the target, as those of its helpers and
            of conftest.py must; without it nothing that holds vLLM already is looked at.

    Raises:
        InProcessError: another target is simulated already, vLLM is not there, or what was imported before cannot be
            undone.
    """
    active = next((finder.target for finder in sys.meta_path if isinstance(finder, _Active)), None)
    if active == target:
        yield target
        return
    if active is not None:
        what = f"cannot simulate {target.name}, a target is simulated already"
        raise InProcessError(located("simulated_target", what, got=active.name, hint="Use one target a test."))
    tree, journal = _tree(), Journal()
    _refuse_compiled(target)
    imports = _imports(target, test)
    registrations = Registrations([tree / rebinding.SUBJECT, Path(build.__file__).parent])
    with _state(), contextlib.closing(registrations), _patch() as patch:
        registrations.install(patch)
        for name in _BEFORE:
            importlib.import_module(name)
        _forget_answers()
        for name in [name for name in sys.modules if _root(name) in _ROOTS]:
            del sys.modules[name]
        _install(target, tree, journal, patch)
        for module, bound in imports:
            patch.setitem(vars(module), bound.name, _rebound(target, module, bound))
        yield target
    _warn_of_limits(target, journal)


class _Active(packages.VllmMetadata):
    """Answers for vLLM's metadata, and marks on ``sys.meta_path`` which target is simulated."""

    def __init__(self, target: Target, version: str) -> None:
        super().__init__(packages.built_version(version, target.platform))
        self.target = target


def _tree() -> Path:
    """The directory that contains ``vllm/``."""
    spec = importlib.util.find_spec(rebinding.SUBJECT)
    if spec is None or not spec.submodule_search_locations:
        hint = "Install vLLM, or put its tree on PYTHONPATH."
        raise InProcessError(located("simulated_target", "vLLM cannot be imported", hint=hint))
    return Path(next(iter(spec.submodule_search_locations))).parent


def _refuse_compiled(target: Target) -> None:
    """Operators of a compiled vLLM decide routing, and no process can unload them."""
    loaders = importlib.machinery.ExtensionFileLoader
    names = [
        name
        for name, module in sys.modules.items()
        if _root(name) == rebinding.SUBJECT and isinstance(getattr(module.__spec__, "loader", None), loaders)
    ]
    if names:
        what = f"cannot simulate {target.name}, compiled modules of vLLM are loaded"
        raise InProcessError(located("simulated_target", what, got=", ".join(sorted(names)[:_SHOWN]), hint=ADVICE))


def _imports(target: Target, test: types.ModuleType | None) -> list[tuple[types.ModuleType, rebinding.Bound]]:
    """The names to rebind; refused where the test computed something from vLLM that no rebinding reaches."""
    if test is None or rebinding.SUBJECT not in sys.modules:
        return []
    users = {module: rebinding.parsed(module) for module in rebinding.holders(test)}
    places = [
        place
        for module, source in users.items()
        for place in rebinding.baked(str(module.__file__), source, strict=module is test)
    ]
    if places:
        listed = "; ".join(f"{place.where} ({place.name})" for place in places[:_SHOWN])
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        what = f"cannot simulate {target.name}, values were computed from vLLM before, at import: {listed}{more}"
        raise InProcessError(located("simulated_target", what, hint=ADVICE))
    users |= {module: rebinding.parsed(module) for module in rebinding.conftests()}
    return [(module, bound) for module, source in users.items() for bound in rebinding.bindings(source)]


def _rebound(target: Target, module: types.ModuleType, bound: rebinding.Bound) -> Any:
    try:
        return rebinding.value_of(bound)
    except ImportError as error:
        what = f"under {target.name} vLLM has no {bound.name!r}, which the module imports at its top ({error})"
        raise InProcessError(located(str(module.__file__), what, hint="Import it inside the test.")) from error


def _install(target: Target, tree: Path, journal: Journal, patch: drivers.Patch) -> None:
    """Drivers, packages, vendor modules and the declared build, as ``simulated.install`` has them; AITER is absent."""
    os.environ["VLLM_PLUGINS"] = ""  # a platform plugin of this machine would take vLLM's platform for itself
    os.environ.pop("VLLM_TARGET_DEVICE", None)
    if target.platform is Platform.CPU:
        os.environ["VLLM_TARGET_DEVICE"] = "cpu"
    drivers.install_drivers(target, patch)
    presence = packages.packages_of(target.platform, {})
    for name in (name for name, present in presence.items() if present):
        sys.meta_path.insert(0, packages.StandInFinder(name, journal))
    absent = [name for name, present in presence.items() if not present]
    private = [name for name, homes in packages.VENDOR_MODULES.items() if target.platform not in homes]
    packages.AbsentFinder([*absent, "aiter"], private, tree, journal).install()
    sys.meta_path.insert(0, _Active(target, version_of(tree)))
    if target.platform is Platform.CUDA:
        sys.meta_path.insert(0, drivers.NvmlFinder(target, tree))
    for name in build.NATIVE_MODULES[target.platform]:
        drivers.stand_in_module(f"{rebinding.SUBJECT}.{name}", patch)
    declared = build.declared_build(tree, target)
    build.register(replace(declared, schemas=_unknown_to_torch(declared)), queries_of(target), journal)


def _unknown_to_torch(declared: build.DeclaredBuild) -> tuple[tuple[str, str], ...]:
    import torch

    return tuple(
        (namespace, schema)
        for namespace, schema in declared.schemas
        if not hasattr(getattr(torch.ops, namespace), schema.partition("(")[0].partition(".")[0])
    )


@contextlib.contextmanager
def _state() -> Iterator[None]:
    """Put back modules, import hooks, paths and the environment."""
    lists: tuple[list[Any], ...] = (sys.meta_path, sys.path, sys.path_hooks)
    before = [list(each) for each in lists]
    environment = dict(os.environ)
    aside = {name: module for name, module in sys.modules.items() if _root(name) in _ROOTS}
    try:
        yield
    finally:
        for each, content in zip(lists, before, strict=True):
            each[:] = content
        os.environ.clear()
        os.environ.update(environment)
        for name in [name for name in sys.modules if _root(name) in _ROOTS]:
            del sys.modules[name]
        sys.modules.update(aside)
        _forget_answers()


@contextlib.contextmanager
def _patch() -> Iterator[drivers.Patch]:
    """A patch that is undone; the attributes that other modules of the harness replace for good are noted first."""
    import pytest
    import torch._ops

    kind: Any = torch._ops._OpNamespace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", importlib.util.find_spec)
        patch.setattr(kind, "__getattr__", kind.__getattr__)
        yield patch


def _forget_answers() -> None:
    """Empty the caches of functions that may remember the device of before."""
    kind: Any = type(functools.cache(lambda: None))
    for name, module in list(sys.modules.items()):
        if _root(name) in _CACHING:
            for value in list(vars(module).values()):
                if type(value) is kind:  # isinstance would wake lazy attributes that warn of their deprecation
                    value.cache_clear()


def _warn_of_limits(target: Target, journal: Journal) -> None:
    limits = list(dict.fromkeys([*journal.unanswerable, *journal.unknown]))
    if limits:
        more = f" and {len(limits) - _SHOWN} more" if len(limits) > _SHOWN else ""
        message = f"the simulated {target.name} could not know: {'; '.join(limits[:_SHOWN])}{more}"
        warnings.warn(message, SimulationLimitWarning, stacklevel=4)


def _root(name: str) -> str:
    return name.partition(".")[0]
