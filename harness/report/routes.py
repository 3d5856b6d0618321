"""What is chosen, what was refused before it and why: routing decisions collapsed until a person can read them.

In: records. Out: blocks, each a set of targets that get the same kernels wherever they are asked the same. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.model.cell import Surface
from harness.model.record import Category, Record
from harness.model.target import Platform
from harness.report.causes import figures
from harness.report.text import natural
from harness.report.undecided import KINDS
from harness.report.where import Population, Universe, by_platform, label_of, model_of, target_of, targets_listed, where

K = TypeVar("K", bound=Hashable)

FACTS: Mapping[Surface, str] = {
    Surface.PLATFORM: "platform facts",
    Surface.AITER_GATE: "AITER gates",
    Surface.TUNED_GATE: "tuned-table gates",
    Surface.SWITCH: "environment switches",
    Surface.LINEAR_KERNEL: "linear kernel classes and selectors",
    Surface.EXPERTS: "expert classes",
    Surface.MOE_ORACLE: "MoE oracles",
    Surface.ATTENTION_BACKEND: "attention backends",
    Surface.IR_OP: "IR operators",
    Surface.QUANTIZATION: "quantization methods",
    Surface.DTYPE: "dtype maps",
    Surface.DEFAULTS: "engine defaults",
    Surface.WEIGHTS: "weights",
    Surface.IMPORT_EFFECT: "effects of importing",
}
"""Surfaces that answer questions about a target, with their titles; on every other a kernel or a path is chosen."""


@dataclass(frozen=True)
class Choice:
    """One kernel (or none) that cells of a block get."""

    chosen: str
    cells: int
    where: str
    """Which cells of the block; empty for all of them."""


@dataclass(frozen=True)
class Block:
    """Targets that never get different kernels for a cell that two of them are asked."""

    family: str
    targets: str
    cells: int
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Refusal:
    """Candidates that were refused in one wording."""

    candidates: tuple[str, ...]
    """Empty where vLLM has no candidate at all."""
    category: Category | None
    words: str
    """vLLM's own words, without the candidate's name before them; may be empty."""
    texts: int
    """How many wordings there are that differ in numbers or targets; ``words`` is the first."""
    cells: int
    targets: str
    where: str


@dataclass(frozen=True)
class Scheme:
    """Kernels asked for that get the same answers."""

    kernels: tuple[str, ...]
    cells: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Family:
    """All that a run says of one family of kernels on one surface."""

    name: str
    schemes: tuple[Scheme, ...]
    refusals: tuple[Refusal, ...]
    """Of all schemes: most of them hold for several."""


def decisions(records: Sequence[Record]) -> list[Record]:
    """The records on surfaces that choose."""
    return [record for record in records if record.surface not in FACTS]


def overview(records: Sequence[Record], limit: int) -> tuple[Block, ...]:
    """What is chosen: one block a family and a set of targets.

    Args:
        records: of a run; those of ``FACTS`` are left out.
        limit: with more blocks than this, and a ROCm target among them, each family's targets of all other
            platforms share one block, which then holds more than one answer to the same question.
    """
    groups = _families(records)
    blocks = [block for members in groups for block in _blocks(members)]
    rocm = any(record.platform is Platform.ROCM for members in groups for record in members)
    if len(blocks) <= limit or not rocm:
        return tuple(blocks)
    folded = [block for members in groups for block in _folded(members)]
    return tuple(folded if len(folded) < len(blocks) else blocks)


def _folded(members: Sequence[Record]) -> list[Block]:
    """ROCm by sets of targets, everything else as one block."""
    within = Universe.of(members)
    others = [record for record in members if record.platform is not Platform.ROCM]
    mine = [_block(group, within) for group in _alike([r for r in members if r.platform is Platform.ROCM])]
    return mine + ([_block(others, within)] if others else [])


def families(records: Sequence[Record]) -> tuple[Family, ...]:
    """Every family of kernels that the run asked for, with its schemes and refusals."""
    return tuple(Family(members[0].family, schemes_of(members), refusals_of(members)) for members in _families(records))


def schemes_of(records: Sequence[Record]) -> tuple[Scheme, ...]:
    """One scheme a kernel asked for; kernels whose blocks do not differ share one."""
    found: dict[tuple[object, ...], list[Record]] = {}
    for _, members in _grouped(records, lambda record: record.kernel):
        found.setdefault(tuple(_blocks(members)), []).extend(members)
    return tuple(
        Scheme(
            kernels=tuple(sorted({record.kernel for record in members}, key=natural)),
            cells=len(members),
            blocks=tuple(_blocks(members)),
        )
        for members in found.values()
    )


def _families(records: Sequence[Record]) -> list[list[Record]]:
    return [members for _, members in _grouped(decisions(records), lambda record: (record.surface, record.family))]


def _blocks(members: Sequence[Record]) -> list[Block]:
    within = Universe.of(members)
    return [_block(group, within) for group in _alike(members)]


def _alike(members: Sequence[Record]) -> list[list[Record]]:
    """Records by sets of targets; a target joins the first larger one that answers all of its cells as it does."""
    groups: list[tuple[frozenset[tuple[object, ...]], list[Record]]] = []
    targets = [(frozenset(map(_decision, group)), group) for _, group in _grouped(members, target_of)]
    for answers, group in sorted(targets, key=lambda item: -len(item[0])):
        home = next((records for known, records in groups if answers <= known), None)
        if home is None:
            groups.append((answers, list(group)))
        else:
            home.extend(group)
    return sorted((records for _, records in groups), key=_first_target)


def _first_target(records: Sequence[Record]) -> tuple[object, ...]:
    """Sort key of records: that of the first of their targets."""
    return min(by_platform(record) for record in {target_of(record): record for record in records}.values())


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


def _block(records: Sequence[Record], within: Universe) -> Block:
    choices = [Choice(label, len(got), where(got, records)) for label, got in _grouped(records, label_of)]
    return Block(
        family=records[0].family,
        targets=targets_listed(records, within),
        cells=len(records),
        choices=tuple(sorted(choices, key=lambda choice: (-choice.cells, choice.chosen))),
    )


def refusals_of(records: Sequence[Record]) -> tuple[Refusal, ...]:
    """The refusals, platform by platform in the candidates' own order.

    One entry holds what differs in numbers or targets only, and all candidates that it refuses in the same cells.
    """
    met: dict[tuple[str, Category | None, str], list[tuple[str, Record]]] = {}
    for record in sorted(records, key=lambda record: tuple(Platform).index(record.platform)):
        for name, category, words in _refused(record):
            met.setdefault((name, category, figures(words)), []).append((words, record))
    merged: dict[tuple[object, ...], list[tuple[str, Category | None, str]]] = {}
    for key, found in met.items():
        merged.setdefault((*key[1:], frozenset(record.id for _, record in found)), []).append(key)
    population = Population.of(records)
    return tuple(
        _refusal(tuple(name for name, _, _ in keys if name), keys[0][1], met[keys[0]], population)
        for keys in merged.values()
    )


def _refused(record: Record) -> list[tuple[str, Category | None, str]]:
    """The record's refusals; of a refusal without any candidate, the reason itself."""
    if record.chosen is None and not record.candidates and not (record.outcome.is_bad or record.outcome in KINDS):
        return [("", None, record.reason)]
    return [
        (candidate.name, candidate.category, own_words(candidate.name, candidate.reason))
        for candidate in record.candidates
        if candidate.accepted is False
    ]


def _refusal(
    candidates: tuple[str, ...],
    category: Category | None,
    found: Sequence[tuple[str, Record]],
    population: Population,
) -> Refusal:
    texts = {words for words, _ in found}
    refused = [record for _, record in found]
    targets, place = population.placed(refused)
    return Refusal(candidates, category, min(texts), len(texts), len(refused), targets, place)


def own_words(name: str, reason: str) -> str:
    """vLLM's words without the candidate's name and the second full stop that its selectors put around them."""
    words = reason.removeprefix(name).lstrip(": ").rstrip()
    return words[:-1] if words.endswith("..") and not words.endswith("...") else words


def _grouped(records: Sequence[Record], key: Callable[[Record], K]) -> list[tuple[K, list[Record]]]:
    """Records by key, keys in natural order, records in the order given."""
    groups: dict[K, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return sorted(groups.items(), key=lambda item: natural(str(item[0])))
