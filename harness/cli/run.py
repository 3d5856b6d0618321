"""``gfxloop run [pytest arguments]``: the suites, wherever gfxloop is installed."""

from __future__ import annotations

import subprocess
import sys

import click

from harness.bundled import suites_dir
from harness.cli.execute import new_run_directory
from harness.cli.upstream import command as upstream


@click.command("run", context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run the pytest suites with ARGUMENTS: pytest's own and gfxloop's (--subject, --target, --tier, ...).

    A run directory with the report is written as by check; --out names it. Exit codes are pytest's, and 3 for a
    selection that selects nothing. With --upstream FILE the subject's own tests run instead
    (gfxloop run --upstream FILE --help).
    """
    if any(word == "--upstream" or word.startswith("--upstream=") for word in arguments):
        upstream.main(args=list(arguments), prog_name="gfxloop run", standalone_mode=False)
        return
    words = list(arguments)
    if not any(word == "--out" or word.startswith("--out=") for word in words):
        words += ["--out", str(new_run_directory("suites"))]
    suites = str(suites_dir())
    # A process of its own: pytest's plugin is loaded before any argument is read, and owns the process.
    done = subprocess.run([sys.executable, "-m", "pytest", suites, "--rootdir", suites, *words])
    sys.exit(done.returncode)
