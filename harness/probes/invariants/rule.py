"""What an invariant is: a rule that must hold for any vLLM. In: a cell and its observation. Out: findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Finding, Observation

Seen = tuple[Cell, Observation]
CellRule = Callable[[Cell, Observation], Iterable[Finding]]
RunRule = Callable[[Cell, Observation, tuple[Seen, ...]], Iterable[Finding]]
"""A cell, its observation, and the other cells of the run that it has to agree with."""


@dataclass(frozen=True)
class Invariant:
    """One rule. Exactly one of ``check``, ``across`` and ``noted_by`` says where it is judged."""

    rule: str
    """``I1`` ... ``I16``, as in docs/invariants.md and in ``Finding.rule``."""
    name: str
    reason: str
    """Why it must hold, in a sentence that a reviewer understands."""
    check: CellRule | None = None
    across: RunRule | None = None
    noted_by: str = ""
    """Module that makes the finding itself, because the fact is the fault."""


CHOOSES = frozenset({Surface.LINEAR, Surface.MOE, Surface.ATTENTION, Surface.UNQUANTIZED_GEMM, Surface.IR_OP})
"""Surfaces whose answer is a choice among candidates."""


def variables(cell: Cell) -> Mapping[str, str]:
    """The environment variables of a cell: its profile's, and those of its kernel alone."""
    own = (word.split("=", 1) for word in str(cell.kernel.scheme.get("env", "")).split())
    return {**cell.env, **dict(own)}


def first_choice(cell: Cell, seen: Observation) -> str:
    """What an answer puts to work: the chosen kernel, and of a ranking or a chain the first."""
    return (seen.chosen or "").partition(" > ")[0]


def explicit(cell: Cell) -> bool:
    """Whether the cell's user named a backend: then a refusal and a foreign name are both in order."""
    return "backend" in cell.kernel.scheme


def answers(seen: Observation, question: str) -> Iterator[str]:
    """The answers of the evidence whose question matches ``question``, a regular expression."""
    form = re.compile(question)
    return (item.answer for item in seen.evidence if form.fullmatch(item.question))


def is_decided(seen: Observation) -> bool:
    """Whether vLLM answered or refused; what cannot be told breaks no rule."""
    return seen.ended in (Ended.ANSWERED, Ended.REFUSED)
