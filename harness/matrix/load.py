"""matrix.yaml as one object. In: a path, the device facts, the day. Out: ``Matrix``, or every problem of the file.

Must not: look at the environment, the clock or a device.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.matrix.expand import Environment, Resolver, expand
from harness.matrix.expectations import (
    Book,
    Excepted,
    Expected,
    KnownFailure,
    check_rules,
    exception_rules,
    expectation_rules,
    known_rules,
    merge,
)
from harness.matrix.schema import validate
from harness.matrix.shapes import Model
from harness.matrix.source import Problems, read
from harness.model.cell import Cell, Kernel
from harness.model.target import Target


@dataclass(frozen=True)
class Matrix:
    """A matrix, checked and expanded."""

    path: Path
    digest: str
    """blake2b of the file's bytes."""
    targets: Mapping[str, Target]
    environments: Mapping[str, Environment]
    kernels: tuple[Kernel, ...]
    models: Mapping[str, Model]
    cells: tuple[Cell, ...]
    """In the order of the file, each id once."""
    _expectations: Book = field(repr=False)
    _known: Book = field(repr=False)
    _exceptions: Book = field(repr=False)

    def expected(self, cell: Cell, *, aiter: bool) -> Expected | None:
        """What the file expects of a cell, which may be one that the file does not have (another ``tp``).

        Args:
            cell: the question.
            aiter: whether the subject sees an AITER.
        """
        return merge(self._expectations.about(cell), has_aiter=aiter)

    def known_failure(self, cell: Cell) -> KnownFailure | None:
        """The first known failure that speaks of the cell."""
        return next((rule.known for rule in self._known.about(cell)), None)

    def exceptions(self, cell: Cell) -> dict[str, Excepted]:
        """Invariants that the cell may break, by rule."""
        rules = (rule.excepted for rule in self._exceptions.about(cell))
        return {excepted.rule: excepted for excepted in rules if excepted is not None}


def load_matrix(path: Path, targets: Mapping[str, Target], today: datetime.date) -> Matrix:
    """Read, check and expand a matrix.

    Args:
        path: the file.
        targets: the table of device facts, full name -> target.
        today: the day against which known failures and exceptions expire.

    Raises:
        MatrixError: the file is wrong; the message lists the problems, each as file:line:column.
    """
    source = read(path)
    problems = Problems(path)
    file = validate(source, problems)
    resolver = Resolver(source, problems)
    named = resolver.named(file, targets)
    cells = expand(resolver, file, named, problems)
    expectations = Book.of(expectation_rules(resolver, file, named, source), cells)
    known = Book.of(known_rules(resolver, file, named, source, today), cells)
    exceptions = Book.of(exception_rules(resolver, file, named, source, today), cells)
    problems.check()
    for book in (expectations, known, exceptions):
        check_rules(resolver, book, cells)
    problems.check()
    return Matrix(
        path=path,
        digest=source.digest,
        targets=named.targets,
        environments=named.environments,
        kernels=named.kernels,
        models=named.models,
        cells=cells,
        _expectations=expectations,
        _known=known,
        _exceptions=exceptions,
    )
