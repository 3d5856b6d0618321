"""What is chosen, what was refused before it and why: routing decisions collapsed until a person can read them.

In: records. Out: blocks, each a set of targets on which the same cells get the same kernels. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.model.record import Category, Record
from harness.report.text import natural
from harness.report.where import Universe, label_of, model_of, target_of, targets_listed, where

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Choice:
    """One kernel (or none) that cells of a block get."""

    chosen: str
    cells: int
    where: str
    """Which cells of the block; empty for all of them."""


@dataclass(frozen=True)
class Refusal:
    """One candidate that was refused in a block, in one wording."""

    candidate: str
    category: Category | None
    words: str
    """vLLM's own words, verbatim; may be empty."""
    cells: int
    where: str
    targets: str
    """Empty for all targets of the block."""


@dataclass(frozen=True)
class Block:
    """Targets on which the same cells get the same kernels."""

    family: str
    kernels: tuple[str, ...]
    targets: str
    cells: int
    choices: tuple[Choice, ...]
    refusals: tuple[Refusal, ...]


def overview(records: Sequence[Record]) -> tuple[Block, ...]:
    """One block a family and a set of equal targets, without refusals: the table at the top of a report."""
    found = []
    universe = Universe.of(records)
    for family, members in _grouped(records, lambda record: record.family):
        found += [replace(block, refusals=()) for block in _blocks(family, members, universe)]
    return tuple(found)


def details(records: Sequence[Record]) -> tuple[Block, ...]:
    """One block a kernel and a set of equal targets; kernels that do not differ in any choice share their blocks."""
    found: dict[tuple[object, ...], list[Block]] = {}
    universe = Universe.of(records)
    for (family, _), members in _grouped(records, lambda record: (record.family, record.kernel)):
        blocks = _blocks(family, members, universe)
        same = (family, *((block.targets, block.choices, _unworded(block.refusals)) for block in blocks))
        found.setdefault(same, []).extend(blocks)
    return tuple(merged for blocks in found.values() for merged in _merged(blocks))


def _unworded(refusals: Iterable[Refusal]) -> tuple[object, ...]:
    """Refusals but for their counts."""
    return tuple((refusal.candidate, refusal.category, refusal.words, refusal.where) for refusal in refusals)


def _merged(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of several kernels, equal but for the kernel, as one each."""
    by_targets: dict[str, list[Block]] = {}
    for block in blocks:
        by_targets.setdefault(block.targets, []).append(block)
    return [
        replace(
            same[0],
            kernels=tuple(dict.fromkeys(kernel for block in same for kernel in block.kernels)),
            cells=sum(block.cells for block in same),
            choices=tuple(replace(choice, cells=choice.cells * len(same)) for choice in same[0].choices),
            refusals=tuple(replace(refusal, cells=refusal.cells * len(same)) for refusal in same[0].refusals),
        )
        for same in by_targets.values()
    ]


def _blocks(family: str, members: Sequence[Record], within: Universe) -> list[Block]:
    """Members grouped into sets of targets that make the same choice for the same cells."""
    by_choice: dict[frozenset[tuple[object, ...]], list[Record]] = {}
    for _, records in _grouped(members, target_of):
        by_choice.setdefault(frozenset(map(_decision, records)), []).extend(records)
    return [_block(family, records, within) for records in by_choice.values()]


def _block(family: str, records: Sequence[Record], within: Universe) -> Block:
    by_label = _grouped(records, label_of)
    own = Universe.of(records)
    choices = [Choice(label, len(members), where(members, own)) for label, members in by_label]
    kernels = sorted({record.kernel for record in records}, key=natural)
    return Block(
        family=family,
        kernels=tuple(kernels),
        targets=targets_listed(records, within),
        cells=len(records),
        choices=tuple(sorted(choices, key=lambda choice: (-choice.cells, choice.chosen))),
        refusals=refusals_of(records),
    )


def refusals_of(records: Sequence[Record]) -> tuple[Refusal, ...]:
    """Distinct (candidate, category, words) among the refused candidates, in the candidates' own order."""
    met: dict[tuple[str, Category | None, str], list[Record]] = {}
    for record in records:
        for candidate in record.candidates:
            if candidate.accepted is False:
                met.setdefault((candidate.name, candidate.category, candidate.reason), []).append(record)
    found = []
    own = Universe.of(records)
    everywhere = targets_listed(records, own)
    for (name, category, words), members in met.items():
        targets = targets_listed(members, own)
        found.append(
            Refusal(name, category, words, len(members), where(members, own), "" if targets == everywhere else targets)
        )
    order = list(dict.fromkeys(refusal.candidate for refusal in found))
    return tuple(sorted(found, key=lambda refusal: (order.index(refusal.candidate), -refusal.cells, refusal.words)))


def _decision(record: Record) -> tuple[object, ...]:
    """One cell apart from its target, with what it got."""
    return (
        record.tier,
        record.surface,
        record.kernel,
        record.environment,
        model_of(record),
        record.layer,
        label_of(record),
    )


def _grouped(records: Sequence[Record], key: Callable[[Record], K]) -> list[tuple[K, list[Record]]]:
    """Records by key, keys in natural order, records in the order given."""
    groups: dict[K, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return sorted(groups.items(), key=lambda item: natural(str(item[0])))
