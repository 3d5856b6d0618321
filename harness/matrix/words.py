"""The words by which matrix.yaml and the command line name things. In: words. Out: the names they stand for.

Must not: read files. A word may name one thing or a group (a platform, a gfx target, a family, ``all``); with ``-`` in
front it takes away, so that ``[rocm, -gfx942]`` is every ROCm target but gfx942.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.matrix.schema import Selection
from harness.model.cell import Cell, Kernel, Surface, Tier
from harness.model.target import Target

Table = Mapping[str, frozenset[str]]
"""What each word stands for."""


def table(pairs: Iterable[tuple[str, str]]) -> Table:
    """Table of words from (word, name) pairs; ``all`` stands for every name."""
    found: dict[str, set[str]] = {"all": set()}
    for word, name in pairs:
        found.setdefault(str(word), set()).add(name)  # str: a StrEnum would show its repr in a message
        found["all"].add(name)
    return {word: frozenset(names) for word, names in found.items()}


def target_words(targets: Iterable[Target]) -> Table:
    """Full name, gfx target, product and platform of each target."""
    return table((word, t.name) for t in targets for word in {t.name, t.gfx, t.product, t.platform.value})


def kernel_words(kernels: Iterable[Kernel], surface: Surface | None = None) -> Table:
    """Name and family of each kernel, of one surface or of all."""
    chosen = [kernel for kernel in kernels if surface in (None, kernel.surface)]
    return table((word, kernel.name) for kernel in chosen for word in (kernel.name, kernel.family))


def plain_words(names: Iterable[str]) -> Table:
    """Things that are named one by one."""
    return table((name, name) for name in names)


def resolve(words: Sequence[str], known: Table) -> tuple[frozenset[str], tuple[tuple[int, str], ...]]:
    """The names that the words stand for, and (index, word) of each word that is not known."""
    names = set(known["all"]) if words and words[0].startswith("-") else set()
    unknown = []
    for index, word in enumerate(words):
        bare = word.removeprefix("-")
        if bare not in known:
            unknown.append((index, bare))
        elif bare == word:
            names |= known[word]
        else:
            names -= known[bare]
    return frozenset(names), tuple(unknown)


@dataclass(frozen=True)
class Selector:
    """A condition on cells; None is no condition."""

    tier: Tier | None
    surface: Surface | None
    targets: frozenset[str] | None
    environments: frozenset[str] | None
    kernels: frozenset[str] | None
    models: frozenset[str] | None
    layers: frozenset[str] | None

    def in_group(self, surface: Surface, target: str, environment: str) -> bool:
        """Whether cells of this surface, target and environment can match at all."""
        return (
            self.surface in (None, surface)
            and (self.targets is None or target in self.targets)
            and (self.environments is None or environment in self.environments)
        )

    def matches(self, cell: Cell) -> bool:
        """Whether the cell meets every condition."""
        return (
            (self.kernels is None or cell.kernel.name in self.kernels)
            and (self.models is None or cell.model in self.models)
            and (self.layers is None or (cell.layer is not None and cell.layer.name in self.layers))
            and self.tier in (None, cell.tier)
            and self.in_group(cell.kernel.surface, cell.target.name, cell.environment)
        )


@dataclass(frozen=True)
class Vocabulary:
    """Every word that entries of one matrix may use."""

    targets: Table
    environments: Table
    kernels: Mapping[Surface | None, Table]
    models: Table
    layers: Table

    def of(self, entry: Selection) -> Mapping[str, Table]:
        """The table of each key of a selection."""
        return {
            "targets": self.targets,
            "environments": self.environments,
            "kernels": self.kernels.get(entry.surface, {"all": frozenset()}),
            "models": self.models,
            "layers": self.layers,
        }
