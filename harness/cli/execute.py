"""Run a campaign into a run directory, with progress on stderr. What ``check``, ``compare`` and ``run`` share."""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path

from harness.model.record import Record
from harness.model.run import Run
from harness.probes.campaign import Campaign
from harness.records import RunWriter
from harness.records.reader import read_manifest
from harness.records.writer import utc_now
from harness.subjects import progress_on

RUNS = Path("reports") / "runs"
"""Where run directories go by default, below the working directory."""


def new_run_directory(subject: str) -> Path:
    """A name no other run has: time, subject, and four random digits for two runs in one second."""
    stamp = re.sub(r"[^0-9TZ]", "", utc_now().split("+")[0])
    return RUNS / f"{stamp}-{re.sub(r'[^A-Za-z0-9.]+', '-', subject)[-40:].strip('-')}-{secrets.token_hex(2)}"


def execute(campaign: Campaign, directory: Path, command: str) -> Run:
    """Ask every cell of the campaign and keep the records in ``directory``."""
    progress = progress_on(sys.stderr)
    manifest = campaign.manifest(command, utc_now())
    with RunWriter(directory, manifest, shard="main") as writer:
        progress.start(len(campaign.cells), f"asking {campaign.located.subject.spec}", "cells")

        def on_record(record: Record) -> None:
            writer.write(record)
            progress.advance(1)

        try:
            records = campaign.run(on_record)
        finally:
            progress.done()
    return Run(manifest=read_manifest(directory), records=records)
