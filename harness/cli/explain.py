"""``gfxloop explain --model M --target T``: each layer's kernel, why, and why not the others.

With ``--config config.json`` the layers are those of vLLM's own model class (see ``harness.cli.whole_model``).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from harness.cli.detail import candidate_line
from harness.cli.options import cache_option, campaign_of, json_option, subject_option, subject_options
from harness.cli.whole_model import explain_config
from harness.compare import judge_check
from harness.matrix import layers_of
from harness.model.cell import Surface
from harness.model.errors import UsageError, located, nearest
from harness.model.record import SCHEMA, Outcome, Record
from harness.probes.campaign import Campaign, with_cells
from harness.report.terminal import console_for
from harness.subjects import parse_env


@click.command("explain")
@click.option("--model", default=None, metavar="NAME", help="Model of the matrix.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=None,
    help="A Hugging Face config.json: the whole model as vLLM builds it.",
)
@click.option("--target", required=True, metavar="NAME", help="gfx target or product: gfx942, gfx942/MI308X.")
@click.option("--tp", type=click.IntRange(min=1), default=None, help="Ranks. [default: the matrix's; 1 for --config]")
@click.option("--ep", is_flag=True, help="Spread experts over the same ranks. Only with --config.")
@click.option(
    "--kernel", "kernels", multiple=True, metavar="NAME", help="Kernel or family. [default: all of the model]"
)
@click.option("--environment", "environments", multiple=True, metavar="NAME", help="Environment profile. Repeatable.")
@subject_option
@subject_options
@json_option
@cache_option
def command(
    model: str | None,
    config: Path | None,
    target: str,
    tp: int | None,
    ep: bool,
    as_json: bool,
    no_cache: bool,
    **words: Any,
) -> None:
    """Say for each layer of a model which kernel it gets on a target, why, and why not the others.

    The model is one of the matrix (--model), or any that vLLM can build (--config).
    """
    if config is not None and model is None and not words["kernels"] and not words["environments"]:
        explain_config(config, target, tp or 1, {**words, "targets": (target,)}, ep=ep, as_json=as_json)
    if model is None or config is not None or ep:
        hint = "With --config: --target, --tp, --ep, --env, --subject, --aiter, --packages."
        raise UsageError(located("explain", "takes either --model or --config", hint=hint))
    words = {**words, "models": (model,), "targets": (target,), "tiers": ("route",)}
    campaign = _layers(campaign_of(words, no_cache=no_cache), model, tp)
    records = campaign.run(lambda _record: None)
    if as_json:
        body = {"schema": SCHEMA, "subject": campaign.located.subject.model_dump(mode="json"), "model": model}
        click.echo(json.dumps({**body, "layers": [record.model_dump(mode="json") for record in records]}))
    else:
        _print(records, campaign, console_for(sys.stdout))
    sys.exit(judge_check(records).exit_code)


def _layers(campaign: Campaign, model: str, tp: int | None) -> Campaign:
    """The model's linear cells, at the tensor-parallel size that is asked for."""
    cells = [cell for cell in campaign.cells if cell.kernel.surface is Surface.LINEAR]
    if not cells:
        raise UsageError(located("explain", "no linear layer left of what was asked", got=model))
    if model not in campaign.matrix.models:
        raise UsageError(located("--model", "not one model", got=model, hint=nearest(model, campaign.matrix.models)))
    if len(gfx := dict.fromkeys(cell.target.gfx for cell in cells)) > 1:
        raise UsageError(located("--target", "not one target", got=", ".join(gfx), hint="Name one of them."))
    target = next((cell.target for cell in cells if cell.target.default), cells[0].target)
    cells = [cell for cell in cells if cell.target == target]
    if tp is None:
        first = cells[0].tp
        return with_cells(campaign, [cell for cell in cells if cell.tp == first])
    layers = {layer.name: layer for layer in layers_of(campaign.matrix.models[model], tp)}
    moved = {(cell.environment, cell.kernel.name, cell.layer.name): cell for cell in cells if cell.layer}
    return with_cells(
        campaign, [dataclasses.replace(cell, tp=tp, layer=layers[name]) for (_, _, name), cell in moved.items()]
    )


def _print(records: tuple[Record, ...], campaign: Campaign, console: Console) -> None:
    """One paragraph for each different answer: the layers that get it, and why not the others."""
    subject, first = campaign.located.subject, records[0]
    head = f"{first.model} at tensor-parallel size {first.tp} on {first.target} ({first.device}, {first.attachment})"
    console.print(Text(f"{head}\n{subject.spec} (vLLM {subject.version}), AITER {subject.aiter.spec}"))
    for (kernel, environment), group in _grouped(records).items():
        env = {**_env(campaign, environment), **parse_env(campaign.request.env)}
        variables = " ".join(f"{name}={value}" for name, value in env.items()) or "nothing set"
        console.print(Text(f"\n{kernel}, environment {environment} ({variables})", style="bold"))
        for answer in _same_answers(group):
            layers = ", ".join(
                f"{record.layer} {record.shape[0]}x{record.shape[1]}" for record in answer if record.shape
            )
            refused = "no kernel" if answer[0].outcome is Outcome.PASSED else answer[0].outcome.value
            taken = answer[0].chosen or refused
            console.print(Text(f"  {layers} -> {taken}"))
            if answer[0].outcome is not Outcome.PASSED or answer[0].chosen is None:
                console.print(Text(f"      {answer[0].reason}"))
            for candidate in answer[0].candidates:
                console.print(Text(f"      {candidate_line(candidate)}", style="" if candidate.accepted else "dim"))


def _env(campaign: Campaign, environment: str) -> dict[str, str]:
    return next((dict(cell.env) for cell in campaign.cells if cell.environment == environment), {})


def _grouped(records: tuple[Record, ...]) -> dict[tuple[str, str], list[Record]]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.kernel, record.environment), []).append(record)
    return groups


def _same_answers(records: list[Record]) -> list[list[Record]]:
    """Records that differ in nothing but their layer."""
    answers: dict[Any, list[Record]] = {}
    for record in records:
        answers.setdefault((record.chosen, record.outcome, record.candidates), []).append(record)
    return list(answers.values())
