"""A function of the subject under every answer of what it reads, and AITER without what modules look for in it.

In: the atoms of a function. Out: situations, each of which is in place while a block runs. A function asked in all of
them shows each of its conditions on every target.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from harness.adapters.atoms import Atom, looks_into_aiter

_ABSENT = object()

Situation = tuple[tuple[Atom, int], ...]
"""Atoms that are posed, each with the number of its value."""


def situations(atoms: Sequence[Atom], most: int) -> list[Situation]:
    """Every combination of answers, or one and two moved at a time from the first of each where there are too many.

    All atoms are posed in each, so that the answers hang neither on the target nor on what is installed here.
    """
    moves = [[(atom, index) for index in range(len(atom.values))] for atom in atoms]
    if math.prod(map(len, moves)) <= most:
        return list(itertools.product(*moves))
    plain = tuple(move[0] for move in moves)
    places = range(len(atoms))
    one = [{place: move} for place in places for move in moves[place][1:]]
    two = [{**a, **b} for a, b in itertools.combinations(one, 2) if a.keys() != b.keys()]
    moved: list[dict[int, tuple[Atom, int]]] = [{}, *one, *(two if len(one) + len(two) < most else ())]
    return [tuple(move.get(place, plain[place]) for place in places) for move in moved]


@contextmanager
def posed(situation: Situation) -> Iterator[None]:
    """Put the answers of a situation in their places while the block runs."""
    before = [(atom, vars(atom.home).get(atom.name, _ABSENT)) for atom, _ in situation]
    try:
        for atom, index in situation:
            setattr(atom.home, atom.name, atom.values[index][1])
        yield
    finally:
        for atom, value in before:
            if value is _ABSENT:
                delattr(atom.home, atom.name)
            else:
                setattr(atom.home, atom.name, value)


@contextmanager
def without_aiter(modules: Sequence[types.ModuleType]) -> Iterator[None]:
    """AITER without what these modules and its own look for in it, while the block runs.

    What AITER has is the question of its gates; functions that import it would look for it.
    """
    stood: list[tuple[Any, str, Any]] = []
    own = sys.modules.get("vllm._aiter_ops")
    every = dict.fromkeys((*modules, own) if own is not None else modules)
    for home in [home for module in every for home in (module, *_classes_of(module))]:
        for name, value in list(vars(home).items()):
            if (inspect.isroutine(value) or hasattr(value, "__wrapped__")) and looks_into_aiter(value):
                stood.append((home, name, value))
    try:
        for home, name, value in stood:
            lacking = _lacking(value)
            setattr(home, name, staticmethod(lacking) if isinstance(home, type) else lacking)
        yield
    finally:
        for home, name, value in stood:
            setattr(home, name, value)


def _classes_of(module: types.ModuleType) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]


def _lacking(function: Any) -> Callable[..., Any]:
    """A function that answers as one that does not find what it needs of AITER."""
    real = inspect.unwrap(getattr(function, "__func__", function))
    returns = inspect.signature(real).return_annotation

    @functools.wraps(real)
    def answer(*_: object, **__: object) -> bool | None:
        if returns in (bool, "bool"):
            return False
        if "None" in str(returns):
            return None
        raise ImportError("AITER lacks it")

    return answer
