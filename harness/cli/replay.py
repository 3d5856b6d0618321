"""``gfxloop replay FILE``: how the harness does on faults that were released."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from packaging.version import InvalidVersion, Version

from harness.cli.options import cache_option, json_option, request_of, subject_options
from harness.compare.replay import Scope, alarms_of, replayed
from harness.model.cell import Cell
from harness.model.errors import SubjectError, UnservableError, UsageError, located
from harness.model.record import Record
from harness.model.replay import Replay, ReplayEntry
from harness.probes.campaign import Choice, Request, choose, open_campaign
from harness.records.replays import pick, read_replays
from harness.records.writer import utc_today
from harness.report.machine import as_text
from harness.report.replays import print_replay, replay_json
from harness.report.terminal import console_for
from harness.subjects import progress_on
from harness.targets.home import cache_folder

Records = Mapping[str, Record]


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--entry", "names", multiple=True, metavar="NAME", help="Entry of the list. Repeatable. [default: all]")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Ask these targets only. Repeatable.")
@click.option(
    "--releases",
    default="",
    metavar="A,B",
    help="Check these releases in full, and count the findings that no entry explains.",
)
@subject_options
@json_option
@cache_option
def command(file: Path, names: tuple[str, ...], releases: str, as_json: bool, no_cache: bool, **words: Any) -> None:
    """Ask the bad and the fixed release of each fault in FILE, and say what shows it.

    D1: a check of the bad release flags the fault, and a check of the fixed release no longer does. D2: comparing the
    two shows a difference. Only the surfaces of the fault's file are asked, on the targets that the entry names. Exit
    code 0 when everything was asked, 4 when a release cannot be had.
    """
    every = read_replays(file)
    entries, full = pick(every, names), _releases(releases)
    request = request_of({**words, "subject": ""})
    asker = _Asker(request, choose(request, utc_today()), observations=not no_cache)
    wanted = sorted({version for entry in entries for version in _both(entry)} | set(full), key=Version)
    asked = {version: asker.ask(version, entries, full=version in full) for version in wanted}
    replay = Replay(
        entries=tuple(replayed(e, *(asked[version] for version in _both(e))) for e in entries),
        releases=tuple(alarms_of(version, tuple(asked[version].values()), every) for version in full),
        unasked=asker.unasked,
    )
    if as_json:
        click.echo(as_text(replay_json(replay)), nl=False)
    else:
        print_replay(replay, console_for(sys.stdout))
    sys.exit(UnservableError.exit_code if replay.unasked else 0)


def _both(entry: ReplayEntry) -> tuple[str, str]:
    return entry.bad_version, entry.fixed_version


def _releases(words: str) -> tuple[str, ...]:
    """The versions of ``--releases``.

    Raises:
        UsageError: one of them is no version.
    """
    try:
        return tuple(dict.fromkeys(str(Version(word)) for word in words.split(",") if word.strip()))
    except InvalidVersion as error:
        raise UsageError(located("--releases", str(error), expected="0.30.0,0.31.0 or the like")) from error


@dataclass
class _Asker:
    """Checks releases, each once, on the cells that are wanted of it."""

    request: Request
    choice: Choice
    observations: bool

    def __post_init__(self) -> None:
        self.unasked: dict[str, str] = {}

    def ask(self, version: str, entries: Sequence[ReplayEntry], *, full: bool) -> Records:
        """Records of one release by id: of all cells, or of those in the scope of an entry that names the release."""
        scopes = [Scope.of(entry) for entry in entries if version in _both(entry)]
        cells = self.choice.cells if full else tuple(_within(scopes, self.choice.cells))
        if not cells:
            return {}
        progress = progress_on(sys.stderr)
        try:
            campaign = open_campaign(
                replace(self.request, subject=f"pypi:{version}"),
                replace(self.choice, cells=cells),
                cache=cache_folder(),
                progress=progress,
                observations=self.observations,
            )
        except SubjectError as error:
            self.unasked[version] = str(error)
            return {}
        progress.start(len(cells), f"asking pypi:{version}", "cells")
        try:
            records = campaign.run(lambda _record: progress.advance(1))
        finally:
            progress.done()
        return {record.id: record for record in records}


def _within(scopes: Sequence[Scope], cells: Iterable[Cell]) -> Iterable[Cell]:
    for cell in cells:
        target = cell.target
        if any(scope.takes(cell.kernel.surface, target.gfx, target.platform) for scope in scopes):
            yield cell
