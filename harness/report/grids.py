"""Answers about targets (platform facts, gates, tuned tables) as grids: question x target.

In: records. Out: grids in which equal rows and equal columns are one. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.model.record import Outcome, Record
from harness.report.routes import FACTS
from harness.report.text import natural
from harness.report.where import Universe, by_platform, label_of, target_of, targets_listed

_LONG = 72
"""Characters of an answer that a grid shows; the record has it whole."""


@dataclass(frozen=True)
class Answers:
    """One surface in one line."""

    title: str
    cells: int
    outcomes: Mapping[Outcome, int]


@dataclass(frozen=True)
class Grid:
    """What the targets answer to the questions of one family."""

    title: str
    family: str
    columns: tuple[str, ...]
    """Sets of targets that never differ."""
    rows: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """(questions that never differ, one answer a column); an empty answer: not asked."""


def answers(records: Sequence[Record]) -> tuple[Answers, ...]:
    """One line a surface of ``FACTS`` that the run asked."""
    found = []
    for surface in FACTS:
        outcomes = Counter(record.outcome for record in records if record.surface is surface)
        if outcomes:
            told = {outcome: outcomes[outcome] for outcome in Outcome if outcomes[outcome]}
            found.append(Answers(FACTS[surface], outcomes.total(), told))
    return tuple(found)


def grids(records: Sequence[Record]) -> tuple[Grid, ...]:
    """One grid a surface of ``FACTS`` and family."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.surface in FACTS:
            groups.setdefault((FACTS[record.surface], record.family), []).append(record)
    return tuple(_grid(*key, groups[key]) for key in sorted(groups))


def _grid(title: str, family: str, records: Sequence[Record]) -> Grid:
    asked: dict[tuple[str, str], list[Record]] = {}
    of_target: dict[str, list[Record]] = {}
    for record in sorted(records, key=by_platform):
        asked.setdefault((record.kernel, target_of(record)), []).append(record)
        of_target.setdefault(target_of(record), []).append(record)
    questions = sorted({kernel for kernel, _ in asked}, key=natural)
    told = {key: _answer(found) for key, found in asked.items()}
    columns: dict[tuple[str, ...], list[Record]] = {}
    for target, found in of_target.items():
        columns.setdefault(tuple(told.get((kernel, target), "") for kernel in questions), []).extend(found)
    rows: dict[tuple[str, ...], list[str]] = {}
    for kernel, line in zip(questions, zip(*columns, strict=True), strict=True):
        rows.setdefault(line, []).append(kernel)
    within = Universe.of(records)
    return Grid(
        title=title,
        family=family,
        columns=tuple(targets_listed(found, within) for found in columns.values()),
        rows=tuple((tuple(kernels), line) for line, kernels in rows.items()),
    )


def _answer(records: Sequence[Record]) -> str:
    """The answers of one target to one question; told apart by environment where that is all that tells them apart."""
    labels = Counter(map(_label, records))
    if len(labels) == 1:
        return next(iter(labels)) or "''"
    environments: dict[str, list[str]] = {}
    for label in labels:
        environments[label] = sorted({r.environment for r in records if _label(r) == label})
    if sum(map(len, environments.values())) == len({record.environment for record in records}):
        return "; ".join(f"{label} ({', '.join(names)})" for label, names in sorted(environments.items()))
    return ", ".join(f"{label} x{count}" for label, count in sorted(labels.items(), key=lambda item: (-item[1], item)))


def _label(record: Record) -> str:
    label = label_of(record)
    return label if len(label) <= _LONG else label[: _LONG - 1] + "…"
