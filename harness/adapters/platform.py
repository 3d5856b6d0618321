"""Platform facts: what vLLM's platform object says of the device, and the ``on_gfx...`` predicates of ROCm.

In: the name of a fact. Out: its value as text (``torch.float8_e4m3fnuz``, ``True``, ``(9, 4)``).
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from harness.adapters.arch_names import decide_arch_names
from harness.adapters.atoms import is_cached
from harness.adapters.deciding import decisions_of_class, decisions_of_module
from harness.adapters.decision import Decision, answered, raised, unsupported
from harness.adapters.posing import without_aiter
from harness.model.cell import Cell
from harness.model.record import Ended

_ABSENT = object()

_PLATFORMS = "vllm.platforms"
_CACHING = (_PLATFORMS, "vllm.utils.platform_utils")
"""Modules that keep what they asked of the driver, and a package of such."""


def decide_fact(cell: Cell) -> Decision:
    """Ask the platform for one fact."""
    name = cell.kernel.name
    if cell.kernel.family == "arch_name":
        return decide_arch_names(cell)
    if cell.kernel.family == "functions":
        return answered(lambda: _decisions(name))
    fact = _find(name, cell.kernel.family == "arch")
    if fact is _ABSENT:
        return unsupported(f"platform fact {name}")
    try:
        value = fact() if callable(fact) else fact
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    return Decision(Ended.ANSWERED, _text(value), getattr(fact, "__qualname__", name))


def _decisions(part: str) -> Decision:
    """What the module's deciding functions answer over their domains, or the platform's methods that need no object."""
    module = importlib.import_module("vllm.platforms.rocm")
    asked = decisions_of_module(module) if part == "rocm" else decisions_of_class(module.RocmPlatform, {}, own=True)
    with without_aiter((module,)):
        line = "; ".join(f"{name} [{answers}]" for name, answers in asked)
    return Decision(Ended.ANSWERED, line, part)


def forget_platform_answers() -> None:
    """Clear every cache of vLLM's platform modules, so that what a question asks of the driver is seen each time."""
    package = sys.modules.get(_PLATFORMS)
    names = (*_CACHING, *(f"{_PLATFORMS}.{name}" for name in (vars(package) if package else ())))
    for clear in caches_of(tuple(sys.modules[name] for name in names if name in sys.modules)):
        clear()


@functools.cache
def caches_of(modules: tuple[types.ModuleType, ...]) -> tuple[Callable[[], None], ...]:
    """``cache_clear`` of each cached function of the modules, methods of their classes included."""
    names = {module.__name__ for module in modules}
    owners: list[Any] = [*modules]
    owners += [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ in names
    ]
    found = [getattr(value, "__func__", value) for owner in owners for value in vars(owner).values()]
    return tuple(value.cache_clear for value in found if is_cached(value) and not isinstance(value, type))


def _find(name: str, arch: bool) -> Any:
    """The fact, or ``_ABSENT``. vLLM's Platform answers unknown names with None, so only its class is asked."""
    from vllm.platforms import current_platform

    if arch:
        return getattr(importlib.import_module("vllm.platforms.rocm"), name, _ABSENT)
    if not hasattr(type(current_platform), name):
        return _ABSENT
    return getattr(current_platform, name)


def _text(value: object) -> str:
    if isinstance(value, tuple):  # DeviceCapability is a named tuple: the numbers matter, not the type
        return str(tuple(value))
    return str(value)
