"""``gfxloop matrix check`` and ``gfxloop matrix list``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.bundled import matrix_path
from harness.cli.options import selection_options
from harness.matrix import Matrix, load_matrix, select
from harness.records.writer import utc_today
from harness.targets.facts import TARGETS

_MATRIX = click.option(
    "--matrix",
    "path",
    type=click.Path(path_type=Path),
    default=None,
    help="The matrix to read. [default: matrix.yaml of gfxloop]",
)


@click.group("matrix")
def command() -> None:
    """Check or list what matrix.yaml asks for."""


@command.command("check")
@_MATRIX
def check(path: Path | None) -> None:
    """Read the whole file and say what is wrong with it, as file:line:column. Exit code 2 for any error."""
    matrix = _load(path)
    pairs = {(cell.target.name, cell.environment) for cell in matrix.cells}
    click.echo(
        f"{matrix.path}: {len(matrix.cells)} cells, {len(matrix.targets)} targets, {len(matrix.environments)} "
        f"environments, {len(matrix.kernels)} kernels, {len(matrix.models)} models; {len(pairs)} workers"
    )


@command.command("list")
@_MATRIX
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def list_(path: Path | None, as_json: bool, **words: Any) -> None:
    """List the cells that the options choose, one id a line, or as JSON."""
    matrix = _load(path)
    cells = select(matrix.cells, **words, all_targets=TARGETS.values())
    if not as_json:
        click.echo("\n".join(cell.id for cell in cells))
        return
    rows = [
        {
            "id": cell.id,
            "platform": cell.target.platform.value,
            "target": cell.target.gfx,
            "device": cell.target.product,
            "tier": cell.tier.value,
            "surface": cell.kernel.surface.value,
            "family": cell.kernel.family,
            "kernel": cell.kernel.name,
            "environment": cell.environment,
            "model": cell.model,
            "tp": cell.tp,
            "layer": cell.layer.name if cell.layer else None,
            "shape": [cell.layer.n, cell.layer.k] if cell.layer else None,
            "mark": cell.target.mark,
        }
        for cell in cells
    ]
    click.echo(json.dumps({"schema": 1, "matrix": str(matrix.path), "cells": rows}))


def _load(path: Path | None) -> Matrix:
    return load_matrix(path or matrix_path(), TARGETS, utc_today())
