"""One side of a change: the kernel and the reasons, told once for all its cells.

In: pairs of records of one cell. Out: what the first of each pair did, and why it is not what the other did. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.record import Candidate, Record
from harness.report.causes import fewer_names, figures, wordings
from harness.report.routes import own_words
from harness.report.text import from_difference
from harness.report.where import label_of

REASONS = 9
"""How many reasons of one side are told; the others are counted."""
_MESSAGES = 2


@dataclass(frozen=True)
class Side:
    """What one of the two runs did with the cells of an entry."""

    label: str
    """The chosen kernel, or why there is none."""
    outcome: str
    reasons: tuple[str, ...]
    """Rules broken or the record's own reason, then ``candidates: what became of them``, at most ``REASONS``."""
    more_reasons: int


def side_of(pairs: Sequence[tuple[Record, Record | None]]) -> Side | None:
    """One side of an entry from pairs (its record, the other side's); None for an entry that lacks this side."""
    if not pairs:
        return None
    messages = _messages([record for record, _ in pairs])
    told = messages[:_MESSAGES] + _candidates(pairs)
    first, other = pairs[0]
    refuses = first.chosen is None and first.candidates and all(c.accepted is False for c in first.candidates)
    return Side(
        label=from_difference(label_of(first), label_of(other or first)) + (" (vLLM refuses)" if refuses else ""),
        outcome=first.outcome.value,
        reasons=tuple(told[:REASONS]),
        more_reasons=len(messages[_MESSAGES:]) + len(told[REASONS:]),
    )


def _messages(records: Sequence[Record]) -> list[str]:
    """The findings, or the reasons where there are none, that say more than the label and the candidates do."""
    found = wordings(fewer_names(message) for record in records for message in _own_messages(record))
    return [wording.example + (f" ({wording.texts} wordings)" if wording.texts > 1 else "") for wording in found]


def _own_messages(record: Record) -> list[str]:
    if record.findings:
        return [finding.message for finding in record.findings]
    if record.candidates:
        return []
    rest = record.reason.removeprefix(record.chosen or "").lstrip(":; ")
    return [rest] if rest else []


def _candidates(pairs: Sequence[tuple[Record, Record | None]]) -> list[str]:
    """``A, B: refused: words`` for what became of candidates, first of those that the other side treats otherwise.

    Refusals that both sides have tell nothing about the change, but where there is no kernel each of them is a reason.
    """
    met: dict[tuple[bool, str, str], tuple[str, set[str]]] = {}
    for record, other in pairs:
        for name, words, differs in _states(record, other):
            if differs or record.chosen is None:
                met.setdefault((differs, figures(words), name), (words, set()))[1].add(record.id)
    merged: dict[tuple[bool, str, frozenset[str]], tuple[str, list[str]]] = {}
    for (differs, key, name), (words, cells) in met.items():
        merged.setdefault((differs, key, frozenset(cells)), (words, []))[1].append(name)
    told = sorted(merged.items(), key=lambda item: (not item[0][0], -len(item[0][2])))
    return [
        f"{', '.join(names)}: {words}" + (f" (x{len(cells)})" if len(cells) < len(pairs) else "")
        for (_, _, cells), (words, names) in told
    ]


def _states(record: Record, other: Record | None) -> list[tuple[str, str, bool]]:
    """(candidate, what became of it here, whether that differs from the other side), in the order of the candidates.

    A candidate that one side does not have is told where the other side reached it.
    """
    mine = {candidate.name: candidate for candidate in record.candidates}
    theirs = {candidate.name: candidate for candidate in other.candidates} if other else mine
    found = []
    for name in [*mine, *(name for name in theirs if name not in mine)]:
        here, there = mine.get(name), theirs.get(name)
        reached = any(candidate is not None and candidate.accepted is not None for candidate in (here, there))
        if reached:
            found.append((name, _state(here), figures(_state(here)) != figures(_state(there))))
    return found


def _state(candidate: Candidate | None) -> str:
    if candidate is None:
        return "not among the candidates"
    if candidate.accepted is None:
        return "not reached"
    word = "accepted" if candidate.accepted else "refused"
    words = own_words(candidate.name, candidate.reason)
    return f"{word}: {words}" if words else word
