"""``gfxloop explain --config config.json``: a whole model, built by vLLM's own model class without weights."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from harness.cli.options import request_of
from harness.matrix import load_matrix
from harness.model.cell import Cell, Kernel, Surface, Tier
from harness.model.errors import UsageError, located, nearest
from harness.model.record import SCHEMA, Ended, Observation
from harness.model.target import Target
from harness.model.whole import WholeModel
from harness.probes.campaign import Campaign, Choice, open_campaign
from harness.records.writer import utc_today
from harness.report.terminal import console_for
from harness.report.whole import whole_model_lines
from harness.subjects import parse_env, progress_on
from harness.targets.facts import TARGETS
from harness.targets.home import cache_folder
from harness.targets.pool import Limits

PROBE = "harness.probes.whole"
_PATIENCE_S = 600.0
"""For one model: a large one is some thousands of modules."""


def explain_config(path: Path, target: str, tp: int, words: dict[str, Any], *, ep: bool, as_json: bool) -> None:
    """Build the model, print what each layer got, and exit.

    Raises:
        UsageError: a word is wrong, or the file is no configuration that the subject knows.
    """
    text = read_config(path)
    device = target_named(target)
    scheme: dict[str, str | int | bool] = {"config": text, "tp": tp, "ep": ep, "passes": True}
    kernel = Kernel(path.parent.name or "model", Surface.WHOLE_MODEL, "whole", scheme)
    cell = Cell(Tier.ROUTE, device, "env", parse_env(tuple(words["env"])), kernel)
    campaign = _campaign(cell, words)
    seen = _seen(campaign, cell)
    if seen.ended is Ended.UNSUPPORTED and seen.symbol:
        raise UsageError(located(f"{path}: {seen.symbol}", seen.detail.rstrip(".")))
    if as_json:
        click.echo(json.dumps(_body(campaign, seen, path, device, tp, ep=ep)))
    else:
        console = console_for(sys.stdout)
        subject = campaign.located.subject
        spread = f"{'expert' if ep else 'tensor'}-parallel size {tp}"
        console.print(Text(f"{seen.chosen or path} at {spread} on {device.gfx} ({device.product}, simulated)"))
        env = "".join(f", {name}={value}" for name, value in subject.env.items())
        console.print(Text(f"{subject.spec} (vLLM {subject.version}), AITER {subject.aiter.spec}{env}"))
        for line in whole_model_lines(seen):
            console.print(Text(line), soft_wrap=True)
    sys.exit(exit_code(seen))


def exit_code(seen: WholeModel) -> int:
    """0: built, or refused in vLLM's words. 1: it broke. 4: the simulation cannot say."""
    if seen.ended in (Ended.RAISED, Ended.DIED, Ended.TIMED_OUT):
        return 1
    return 0 if seen.ended in (Ended.ANSWERED, Ended.REFUSED) or seen.modules else 4


def read_config(path: Path) -> str:
    """The text of a ``config.json`` that names its architecture and its type.

    Raises:
        UsageError: it cannot be read, is no JSON object, or lacks one of the two.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(located(f"--config {path}", f"cannot be read: {error}")) from error
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(located(f"{path}:{error.lineno}:{error.colno}", f"not JSON: {error.msg}")) from error
    if not isinstance(config, dict):
        raise UsageError(located(str(path), "not a model's configuration", expected="a JSON object"))
    names = config.get("architectures")
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        raise UsageError(located(f"{path}: architectures", "missing or no list of names", got=names))
    if not isinstance(config.get("model_type"), str):
        raise UsageError(located(f"{path}: model_type", "missing or no name", got=config.get("model_type")))
    return text


def target_named(name: str) -> Target:
    """The target of a full name, or the one that a bare gfx target stands for.

    Raises:
        UsageError: there is no such target.
    """
    found = [target for target in TARGETS.values() if name in (target.name, target.gfx, target.mark)]
    if not found:
        known = {word for target in TARGETS.values() for word in (target.name, target.gfx)}
        raise UsageError(located("--target", "unknown name", got=name, hint=nearest(name, known)))
    return next((target for target in found if target.default), found[0])


def _campaign(cell: Cell, words: dict[str, Any]) -> Campaign:
    request = request_of(words)
    choice = Choice(load_matrix(request.matrix, TARGETS, utc_today()), (cell,), ())
    campaign = open_campaign(request, choice, cache=cache_folder(), progress=progress_on(sys.stderr))
    patient = replace(campaign.engine, cache=None, probe=PROBE, limits=Limits(cell_s=_PATIENCE_S))
    return replace(campaign, engine=patient)


def _seen(campaign: Campaign, cell: Cell) -> WholeModel:
    """What the worker answered; of a worker that died, how."""
    answers: list[Observation] = []
    campaign.engine.observe([cell], lambda _cell, seen: answers.append(seen))
    (seen,) = answers
    return seen if isinstance(seen, WholeModel) else WholeModel(**seen.model_dump())


def _body(campaign: Campaign, seen: WholeModel, path: Path, target: Target, tp: int, *, ep: bool) -> dict[str, Any]:
    asked = {"config": str(path), "target": target.gfx, "device": target.product, "tp": tp, "ep": ep}
    subject = campaign.located.subject.model_dump(mode="json")
    kept = {"ended", "chosen", "symbol", "detail", "modules", "passes", "unknown"}
    return {"schema": SCHEMA, "subject": subject, **asked, **seen.model_dump(mode="json", include=kept)}
