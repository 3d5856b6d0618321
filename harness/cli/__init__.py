"""The command ``gfxloop``. Commands are loaded when they are called, so that ``--help`` costs next to nothing."""

from __future__ import annotations

import importlib
import signal
import sys

import click

import harness

_COMMANDS = {
    "check": "Route the subject on every chosen target and report what is chosen, what is refused and why.",
    "compare": "Compare two run directories or two subjects, cell by cell.",
    "explain": "Say for each layer of a model which kernel it gets, why, and why not the others.",
    "matrix": "Check or list what matrix.yaml asks for.",
    "replay": "Ask the releases of known faults, and say which of them a check or a comparison shows.",
    "reproduce": "Ask one cell again, in a fresh process, and show everything about the answer.",
    "run": "Run the pytest suites, with any pytest arguments.",
}
"""Command -> its short help; the module of the same name holds it."""


class _Lazy(click.Group):
    """Knows its commands' names and short helps without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"harness.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from harness.model.errors import nearest

            raise click.UsageError(f"no command {args[0]!r}. {nearest(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(harness.__version__, prog_name="gfxloop")
def group() -> None:
    """Tests for the kernel routing of vLLM on ROCm, most of them without a GPU.

    Exit codes: 0 clean, 1 a failure or a regression, 2 wrong usage or matrix, 3 nothing selected, 4 the environment
    cannot serve the request.
    """


def main() -> None:
    """Entry point: errors of the harness become one line on stderr and their exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that workers and scratch folders go
    try:
        group(prog_name="gfxloop")
    except Exception as error:
        from harness.model.errors import HarnessError

        if not isinstance(error, HarnessError):
            raise
        click.echo(f"gfxloop: {error}", err=True)
        sys.exit(error.exit_code)
