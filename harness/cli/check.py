"""``gfxloop check``: the main job."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from harness.cli.execute import execute, new_run_directory
from harness.cli.options import (
    cache_option,
    campaign_of,
    json_option,
    selection_options,
    subject_option,
    subject_options,
)
from harness.compare import judge_check
from harness.model.run import Run
from harness.report.machine import as_text, check_json
from harness.report.summary import summarise
from harness.report.terminal import console_for, print_check
from harness.report.write import write_reports


@click.command("check")
@subject_option
@subject_options
@selection_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="Run directory. [default: a new one under reports/runs/]",
)
@json_option
@cache_option
def command(out: Path | None, as_json: bool, no_cache: bool, **words: Any) -> None:
    """Route the subject on every chosen target, with no GPU, and report it on one page.

    Ends with the verdict and the path of the report. Exit code 1 when a cell fails.
    """
    campaign = campaign_of(words, no_cache=no_cache)
    directory = out or new_run_directory(words["subject"])
    run = execute(campaign, directory, shlex.join(["gfxloop", *sys.argv[1:]]))
    finish(run, directory, as_json=as_json)


def finish(run: Run, directory: Path, *, as_json: bool) -> NoReturn:
    """Write the reports of a run, print it, and exit with its verdict."""
    report = write_reports(run, directory)
    if as_json:
        click.echo(as_text(check_json(run)))
    else:
        print_check(summarise(run), console_for(sys.stdout), report)
    sys.exit(judge_check(run.records, run.manifest.cells).exit_code)
