"""A list of released faults, read from a JSON file.

In: a path. Out: entries. Must not know what is done with them.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from pydantic import ValidationError

from harness.model.errors import UsageError, located, nearest
from harness.model.replay import ReplayEntry

_BETWEEN = " \t\r\n,"


def read_replays(path: Path) -> tuple[ReplayEntry, ...]:
    """Read a list of faults.

    Raises:
        UsageError: the file cannot be read, is no JSON, or holds something else than a list of entries with names of
            their own; told with the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        body = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise UsageError(located(where, "no JSON", got=error.msg, hint="See docs/replay.md.")) from error
    except (OSError, ValueError) as error:  # ValueError: not UTF-8
        raise UsageError(located(str(path), "cannot be read", got=str(error))) from error
    if not isinstance(body, list) or not body:
        raise UsageError(located(f"{path}:1", "no list of faults", expected="[{...}, ...]", hint="See docs/replay.md."))
    lines = _lines(text, len(body))
    entries = tuple(_entry(f"{path}:{line}", item) for line, item in zip(lines, body, strict=True))
    counts = Counter(entry.name for entry in entries)
    for line, entry in zip(lines, entries, strict=True):
        if counts[entry.name] > 1:
            raise UsageError(located(f"{path}:{line}", "the name is taken", got=entry.name, hint="Give it another."))
    return entries


def pick(entries: tuple[ReplayEntry, ...], names: tuple[str, ...]) -> tuple[ReplayEntry, ...]:
    """The entries of these names, in the order of the list; all where no name is given.

    Raises:
        UsageError: no entry has the name.
    """
    known = [entry.name for entry in entries]
    for name in names:
        if name not in known:
            raise UsageError(located("--entry", "not in the list", got=name, hint=nearest(name, known)))
    return tuple(entry for entry in entries if not names or entry.name in names)


def _lines(text: str, count: int) -> list[int]:
    """The line on which each element of the list begins."""
    decoder, lines = json.JSONDecoder(), []
    at = text.index("[") + 1
    for _ in range(count):
        while text[at] in _BETWEEN:
            at += 1
        lines.append(text.count("\n", 0, at) + 1)
        at = decoder.raw_decode(text, at)[1]
    return lines


def _entry(where: str, item: object) -> ReplayEntry:
    try:
        return ReplayEntry.model_validate(item)
    except ValidationError as error:
        named = f"{where}: {item['name']}" if isinstance(item, dict) and "name" in item else where
        raise UsageError(located(named, "; ".join(_words(one) for one in error.errors()))) from error


def _words(error: object) -> str:
    """One error of pydantic as a clause."""
    assert isinstance(error, dict)
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r}. {nearest(key, ReplayEntry.model_fields)}".rstrip(".")
    if error["type"] == "missing":
        return f"key {key!r} is missing"
    words = error["msg"].removeprefix("Value error, ")
    return f"{key}: {words}" if key else words
