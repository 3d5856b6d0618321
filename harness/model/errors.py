"""The one tree of errors that a user of gfxloop can meet, and the exit code each maps to.

A message reads ``<where>: <what> (got X; expected Y). <what to do>``; ``located`` builds it, so that every error
in the house has the same shape.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HarnessError(Exception):
    """Base of every error the harness raises on purpose. Exit code 4 unless a subclass says otherwise."""

    exit_code = 4


class UsageError(HarnessError):
    """A wrong option or argument."""

    exit_code = 2


class MatrixError(HarnessError):
    """matrix.yaml cannot be read or contradicts itself."""

    exit_code = 2


class NothingSelectedError(HarnessError):
    """The selection matches no cell: never a success."""

    exit_code = 3


class UnservableError(HarnessError):
    """The environment cannot serve the request: a missing package, no network, a broken cache."""

    exit_code = 4


class SubjectError(UnservableError):
    """The vLLM tree under test cannot be obtained or is not a vLLM tree."""


class RunDirectoryError(UnservableError):
    """A run directory cannot be read or written."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that helps with a misspelt ``name``: the nearest known name, or all of them when few.

    Returns:
        ``"Did you mean 'x'?"``, or ``"Known: a, b, c."``, or ``""`` where nothing is known.
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(names)}." if names else ""


def located(where: str, what: str, *, got: object = None, expected: str | None = None, hint: str = "") -> str:
    """One error message in the house's shape.

    Args:
        where: file:line:column, option or object that is wrong.
        what: what is wrong, without a full stop.
        got: the offending value, if there is one.
        expected: what would have been right.
        hint: what to do, a full sentence.
    """
    facts = []
    if got is not None:
        facts.append(f"got {got!r}" if isinstance(got, str) else f"got {got}")
    if expected is not None:
        facts.append(f"expected {expected}")
    detail = f" ({'; '.join(facts)})" if facts else ""
    return f"{where}: {what}{detail}." + (f" {hint}" if hint else "")
