"""A replay of released faults as text and as JSON.

In: a ``Replay``. Out: lines on a console, or the object that ``gfxloop replay --json`` prints.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from harness.model.replay import Alarm, Caught, ReleaseAlarms, Replay, Replayed
from harness.report.text import counted, listed, one_line


def print_replay(replay: Replay, console: Console) -> None:
    """Print a block of two lines an entry, the rates, and the findings of releases that no entry explains."""
    width = max(len(entry.name) for entry in replay.entries)
    for entry in replay.entries:
        for line in _entry(entry, width):
            _line(console, line)
    for version, why in replay.unasked.items():
        _line(console, f"not asked: {version}: {one_line(why)}", "yellow")
    _line(console, "")
    for line in rates(replay):
        _line(console, line, "bold")
    for release in replay.releases:
        _release(release, console)


def rates(replay: Replay) -> list[str]:
    """``D1 15 of 23 (invariants 9, expectations 6)``, ``D2 21 of 23``, ``false alarms 0``; how many name the fault."""
    by = ", ".join(f"{what}s {replay.caught_by(what)}" for what in Caught)
    return [
        f"D1 {replay.d1.hit} of {replay.d1.of} ({by}); {replay.d1.named} name the symbol or its class",
        f"D2 {replay.d2.hit} of {replay.d2.of}; {replay.d2.named} name the symbol or its class",
        f"false alarms {replay.false_alarms}",
    ]


def replay_json(replay: Replay) -> dict[str, Any]:
    """The object that ``replay --json`` prints."""
    body = replay.model_dump(mode="json")
    return {
        "schema": replay.schema_version,
        "d1": {**replay.d1.model_dump(), **{f"{what}s": replay.caught_by(what) for what in Caught}},
        "d2": replay.d2.model_dump(),
        "false_alarms": replay.false_alarms,
        "entries": body["entries"],
        "releases": body["releases"],
        "unasked": body["unasked"],
    }


def _entry(entry: Replayed, width: int) -> list[str]:
    d1 = f"{entry.d1_by}, names the {entry.d1_names}" if entry.d1 else "-"
    d2 = f"names the {entry.d2_names}" if entry.d2 else "-"
    alarm = "  FALSE ALARM on the fixed release" if entry.false_alarm else ""
    head = f"{entry.name:<{width}}  {entry.bad + ' -> ' + entry.fixed:<18}  D1 {d1:<31}  D2 {d2:<17}{alarm}"
    return [head.rstrip(), f"    {one_line(entry.evidence, 240)}"]


def _release(release: ReleaseAlarms, console: Console) -> None:
    explained = f"{release.explained} explained by the list, {len(release.alarms)} not"
    head = f"{release.release}: {counted(release.findings, 'finding')} in {counted(release.cells, 'cell')}"
    _line(console, "")
    _line(console, f"{head}, {explained}", "bold")
    for alarm in release.alarms:
        for line in _alarm(alarm):
            _line(console, line)


def _alarm(alarm: Alarm) -> list[str]:
    where = f"{counted(alarm.cells, 'cell')} on {listed(alarm.targets)}"
    head = f"- {one_line(alarm.rule)} at {one_line(alarm.symbol)} ({alarm.surface.value}): {where}"
    return [head, f"    {one_line(alarm.message, 240)}"]


def _line(console: Console, text: str, style: str = "") -> None:
    """One line, never wrapped or cut."""
    console.print(Text(text, style=style), soft_wrap=True)
