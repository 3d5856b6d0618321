"""``gfxloop run --upstream FILE``: the subject's own tests as cells, under simulated targets."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from harness.cli.check import finish
from harness.cli.execute import execute, new_run_directory
from harness.cli.options import cache_option, campaign_of, json_option, subject_option, subject_options
from harness.probes.own_tests import collect, files_of


@click.command("run --upstream")
@subject_option
@subject_options
@click.option("--upstream", "files", multiple=True, required=True, metavar="FILE[::TEST]", help="Repeatable.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="As of check. Repeatable. [default: all]")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Run directory.")
@json_option
@cache_option
def command(files: tuple[str, ...], out: Path | None, as_json: bool, no_cache: bool, **words: Any) -> None:
    """Run the subject's own test FILEs under simulated targets and record each test as a cell.

    FILE is relative to the subject's tree (its source distribution has the tests). A skip says whether the simulation
    could not serve the test (indeterminate) or the test leaves the target out (unsupported).
    """
    opened = campaign_of(words, no_cache=no_cache)
    campaign = collect(opened, files_of(opened.located, files), tuple(words["targets"]))
    directory = out or new_run_directory(f"upstream-{words['subject']}")
    run = execute(campaign, directory, shlex.join(["gfxloop", *sys.argv[1:]]))
    finish(run, directory, as_json=as_json)
