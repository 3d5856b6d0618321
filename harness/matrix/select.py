"""Choosing cells. In: cells and the words of a command line. Out: the cells meant, or an error that says what exists.

Must not: read the matrix or the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.matrix.words import Table, plain_words, resolve, table, target_words
from harness.model.cell import Cell, Tier
from harness.model.errors import NothingSelectedError, UsageError, located, nearest
from harness.model.target import Target


def select(
    cells: Sequence[Cell],
    *,
    targets: Sequence[str] = (),
    tiers: Sequence[str] = (),
    kernels: Sequence[str] = (),
    models: Sequence[str] = (),
    environments: Sequence[str] = (),
    ids: Sequence[str] = (),
    all_targets: Iterable[Target] = (),
) -> tuple[Cell, ...]:
    """The cells that every given option allows, in their order.

    Args:
        cells: what there is to choose from.
        targets: gfx targets (all their products), full names, products, marks (``rocm_gfx942``) or platforms.
        tiers: tiers.
        kernels: kernels, families or surfaces.
        models: models.
        environments: environment profiles.
        ids: ids of cells.
        all_targets: targets that are known although they may have no cell.

    Raises:
        UsageError: a word is not known.
        NothingSelectedError: the words are known, but no cell has them all.
    """
    words = (targets, tiers, kernels, models, environments, ids)
    given = [(option, option.names()) for option in _options(cells, all_targets, words) if option.words]
    left = tuple(cell for cell in cells if all(option.of(cell) in names for option, names in given))
    if not left:
        raise NothingSelectedError(_nothing(cells, [option for option, _ in given]))
    return left


@dataclass(frozen=True)
class _Option:
    """One way to choose: the words given, what they can mean, and what a cell has."""

    name: str
    words: Sequence[str]
    known: Table
    of: Callable[[Cell], str | None]

    def names(self) -> frozenset[str]:
        """What the words stand for."""
        names, unknown = resolve(self.words, self.known)
        for _, word in unknown:
            raise UsageError(located(f"--{self.name}", "unknown name", got=word, hint=nearest(word, self.known)))
        return names


def _options(
    cells: Sequence[Cell], all_targets: Iterable[Target], words: Sequence[Sequence[str]]
) -> tuple[_Option, ...]:
    every = [*all_targets, *{cell.target.name: cell.target for cell in cells}.values()]
    marks = table((target.mark, target.name) for target in every)
    kinds = table(
        (word, _kernel(cell)) for cell in cells for word in (cell.kernel.name, cell.kernel.family, cell.kernel.surface)
    )
    return (
        _Option("target", words[0], {**marks, **target_words(every)}, lambda cell: cell.target.name),
        _Option("tier", words[1], plain_words(Tier), lambda cell: cell.tier),
        _Option("kernel", words[2], kinds, _kernel),
        _Option("model", words[3], plain_words(cell.model for cell in cells if cell.model), lambda cell: cell.model),
        _Option("environment", words[4], plain_words(c.environment for c in cells), lambda cell: cell.environment),
        _Option(
            "id",
            words[5],
            plain_words(cell.id for cell in cells) if words[5] else {"all": frozenset()},
            lambda cell: cell.id,
        ),
    )


def _kernel(cell: Cell) -> str:
    return f"{cell.kernel.surface}/{cell.kernel.name}"


def _nothing(cells: Sequence[Cell], given: Sequence[_Option]) -> str:
    asked = ", ".join(f"{option.name} {' '.join(option.words)}" for option in given)
    exist = {
        "targets": {cell.target.gfx for cell in cells},
        "tiers": {cell.tier.value for cell in cells},
        "families": {cell.kernel.family for cell in cells},
        "models": {cell.model for cell in cells if cell.model},
        "environments": {cell.environment for cell in cells},
    }
    have = "; ".join(f"{key} {' '.join(sorted(names))}" for key, names in exist.items() if names)
    hint = f"There are {have}; but no cell has all that was asked." if have else "There are no cells."
    return located("selection", "no cell", got=asked or None, hint=hint)


def drop_contradicting(cells: Sequence[Cell], env: Mapping[str, str]) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """Leave out the cells whose environment profile sets a variable of ``env`` to another value.

    Args:
        cells: what there is.
        env: the variables of ``--env``.

    Returns:
        The cells that are left, and one note for each profile that went and each variable it disagrees on.
    """
    kept = []
    dropped: dict[tuple[str, str, str], int] = {}
    for cell in cells:
        against = [key for key, value in env.items() if cell.env.get(key, value) != value]
        for key in against:
            place = (cell.environment, key, cell.env[key])
            dropped[place] = dropped.get(place, 0) + 1
        if not against:
            kept.append(cell)
    notes = tuple(
        f"environment profile {name!r} sets {key}={value} and --env asks for {key}={env[key]}: {count} cells left out"
        for (name, key, value), count in dropped.items()
    )
    return tuple(kept), notes
