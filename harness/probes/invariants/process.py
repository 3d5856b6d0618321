"""Invariants about the process and its parameters: I10, I16. In: a cell and its observation. Out: findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.model.cell import Cell, Surface
from harness.model.record import Finding, Observation
from harness.probes.invariants.rule import answers

_BEFORE_THE_DEVICE = frozenset(
    {Surface.PLATFORM, Surface.AITER_GATE, Surface.SWITCH, Surface.DTYPE, Surface.QUANTIZATION}
)
"""Surfaces that a launcher asks before a worker has chosen its device."""

_OF_THE_DEVICE = re.compile(r"num_compute_units|.*memory.*|.*name|.*uuid|.*allreduce", re.IGNORECASE)
"""Questions that only the device itself can answer."""

_GRAD = re.compile(r"(\w+) [^;]*?\bgrad=True")


def device_untouched(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I10: what is asked before a worker has chosen its device does not initialise one."""
    if cell.kernel.surface not in _BEFORE_THE_DEVICE or _OF_THE_DEVICE.fullmatch(cell.kernel.name):
        return
    for call in dict.fromkeys(answers(seen, "device initialised")):
        message = f"{cell.kernel.name} initialises the device: {call}"
        yield Finding(rule="I10", symbol=seen.symbol or cell.kernel.name, message=message)


def no_gradients(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I16: parameters that inference creates for linear layers do not require gradients."""
    if cell.kernel.surface is not Surface.WEIGHTS:
        return
    names = list(dict.fromkeys(_GRAD.findall(seen.chosen or "")))
    if names:
        message = (
            f"{' and '.join(names)} of {cell.kernel.name} requires gradients: kernels that refuse such a tensor fail"
        )
        yield Finding(rule="I16", symbol=seen.symbol or cell.kernel.name, message=message)
