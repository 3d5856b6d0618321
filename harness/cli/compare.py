"""``gfxloop compare A B``: two runs or two subjects, cell by cell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from harness.cli.execute import execute, new_run_directory
from harness.cli.options import cache_option, campaign_of, json_option, selection_options, subject_options
from harness.compare import compare, judge_compare
from harness.model.run import Run
from harness.probes.campaign import Campaign
from harness.records import read_run
from harness.report.changes import summarise_comparison
from harness.report.machine import as_text, compare_json
from harness.report.terminal import console_for, print_comparison
from harness.report.write import write_comparison


@click.command("compare")
@click.argument("baseline")
@click.argument("candidate")
@subject_options
@selection_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder for compare.md and compare.json. [default: a new one under reports/runs/]",
)
@json_option
@cache_option
def command(baseline: str, candidate: str, out: Path | None, as_json: bool, no_cache: bool, **words: Any) -> None:
    """Compare BASELINE with CANDIDATE: each a run directory, or a subject (pypi:0.30.0), which is then checked.

    Options choose the cells of subjects; a run directory is taken as it is. Exit code 1 when something regressed.
    """
    opened = [_open(side, words, no_cache) for side in (baseline, candidate)]  # both, before either costs anything
    before, after = (_run(side) for side in opened)
    comparison = compare(before, after)
    report = write_comparison(comparison, out or new_run_directory("compare"))
    if as_json:
        click.echo(as_text(compare_json(comparison)))
    else:
        print_comparison(summarise_comparison(comparison), console_for(sys.stdout), report)
    sys.exit(judge_compare(comparison).exit_code)


def _open(side: str, words: dict[str, Any], no_cache: bool) -> Run | Campaign:
    """A run directory read back, or a subject ready to be checked."""
    if Path(side).is_dir():
        run = read_run(Path(side))
        for note in run.notes:
            click.echo(f"gfxloop: {side}: {note}", err=True)
        return run
    return campaign_of(words, subject=side, no_cache=no_cache)


def _run(side: Run | Campaign) -> Run:
    if isinstance(side, Run):
        return side
    spec = side.located.subject.spec
    return execute(side, new_run_directory(spec), f"gfxloop compare (side {spec})")
