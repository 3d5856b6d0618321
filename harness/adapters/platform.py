"""Platform facts: what vLLM's platform object says of the device, and the ``on_gfx...`` predicates of ROCm.

In: the name of a fact. Out: its value as text (``torch.float8_e4m3fnuz``, ``True``, ``(9, 4)``).
"""

from __future__ import annotations

import importlib
from typing import Any

from harness.adapters.decision import Decision, raised, unsupported
from harness.model.cell import Cell
from harness.model.record import Ended

_ABSENT = object()


def decide_fact(cell: Cell) -> Decision:
    """Ask the platform for one fact."""
    name = cell.kernel.name
    fact = _find(name, cell.kernel.family == "arch")
    if fact is _ABSENT:
        return unsupported(f"platform fact {name}")
    try:
        value = fact() if callable(fact) else fact
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    return Decision(Ended.ANSWERED, _text(value), getattr(fact, "__qualname__", name))


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
