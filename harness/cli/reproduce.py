"""``gfxloop reproduce ID``: one cell, asked again in a process of its own."""

from __future__ import annotations

import sys
from typing import Any

import click

from harness.cli.detail import print_record
from harness.cli.options import campaign_of, json_option, subject_option, subject_options
from harness.compare import judge_check
from harness.model.errors import UsageError, located
from harness.report.terminal import console_for


@click.command("reproduce")
@click.argument("cell_id", metavar="ID")
@subject_option
@subject_options
@json_option
def command(cell_id: str, as_json: bool, **words: Any) -> None:
    """Ask the cell ID again, past every cache, and show the decision with its candidates, reasons and evidence.

    Every record and every report carries this command, with the subject's options, for each of its cells.
    """
    if "/" not in cell_id or cell_id.startswith("-"):
        hint = "A report prints the ids, and so does: gfxloop matrix list"
        raise UsageError(located("ID", "not the id of a cell", got=cell_id, expected="tier/surface/...", hint=hint))
    campaign = campaign_of(words, ids=(cell_id,), no_cache=True)
    (record,) = campaign.run(lambda _record: None)
    if as_json:
        click.echo(record.model_dump_json())
    else:
        print_record(record, campaign.located.subject, console_for(sys.stdout))
    sys.exit(judge_check((record,)).exit_code)
