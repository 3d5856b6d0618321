"""Invariants over cells of one run: I8, I14. In: a cell, its observation and its partners'. Out: findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Finding, Observation
from harness.probes.invariants.rule import CHOOSES, Seen, explicit

_SIBLINGS = (frozenset({"gfx1200", "gfx1201"}), frozenset({"gfx1100", "gfx1101", "gfx1102"}))
"""gfx targets with one ISA, which differ in size alone."""

_SWITCH = "VLLM_ROCM_USE_AITER"
_OF_THE_SIZE = frozenset({"num_compute_units", "device_name", "get_device_name"})
_AGREES = CHOOSES | {
    Surface.PLATFORM,
    Surface.ALLOWLIST,
    Surface.AITER_GATE,
    Surface.LINEAR_KERNEL,
    Surface.EXPERTS,
    Surface.ATTENTION_BACKEND,
}


def partners(cells: Iterable[Cell]) -> dict[str, tuple[Cell, ...]]:
    """For each cell by id the other cells that it has to agree with."""
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        for key in _keys(cell):
            groups.setdefault(key, []).append(cell)
    found: dict[str, list[Cell]] = {}
    for members in groups.values():
        for cell in members:
            found.setdefault(cell.id, []).extend(other for other in members if other.id != cell.id)
    return {key: tuple(others) for key, others in found.items() if others}


def _keys(cell: Cell) -> Iterator[tuple[object, ...]]:
    question = (cell.tier, cell.kernel.surface, cell.kernel.name, cell.model, cell.tp, cell.layer)
    group = next((names for names in _SIBLINGS if cell.target.gfx in names), None)
    if group and cell.kernel.surface in _AGREES and cell.kernel.name not in _OF_THE_SIZE:
        yield ("siblings", group, cell.environment, *question)
    if cell.kernel.surface in CHOOSES and _SWITCH in cell.env and not explicit(cell):
        rest = tuple(sorted(item for item in cell.env.items() if item[0] != _SWITCH))
        yield ("switch", cell.target.name, rest, *question)


def siblings_agree(cell: Cell, seen: Observation, others: tuple[Seen, ...]) -> Iterator[Finding]:
    """I8: targets of one ISA get the same answers."""
    for other, its in others:
        same_place = other.environment == cell.environment and other.target != cell.target
        decided = seen.ended in _TOLD and its.ended in _TOLD
        if same_place and decided and (seen.ended, seen.chosen) != (its.ended, its.chosen):
            message = (
                f"{cell.target.gfx} gets {seen.chosen or 'a refusal'} and {other.target.gfx}, which has the same ISA, "
                f"{its.chosen or 'a refusal'}"
            )
            yield Finding(rule="I8", symbol=seen.symbol or its.symbol or cell.kernel.name, message=message)


def switch_falls_back(cell: Cell, seen: Observation, others: tuple[Seen, ...]) -> Iterator[Finding]:
    """I14: an optional switch never removes the last kernel, unless the refusal names it."""
    if seen.ended is not Ended.REFUSED or cell.env.get(_SWITCH) != "1" or _SWITCH in seen.detail:
        return
    for other, its in others:
        if other.target == cell.target and other.env.get(_SWITCH) == "0" and its.ended is Ended.ANSWERED:
            first = seen.detail.partition("\n")[0]
            message = f"with {_SWITCH}=1 vLLM refuses ({first}), and without it {its.chosen} serves the request"
            yield Finding(rule="I14", symbol=seen.symbol or cell.kernel.name, message=message)


_TOLD = (Ended.ANSWERED, Ended.REFUSED)
