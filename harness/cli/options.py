"""Options that several commands share, and what they stand for. The command line's words become a ``Request``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.bundled import matrix_path
from harness.probes.campaign import DEFAULT_AITER, DEFAULT_SUBJECT, Campaign, Request, choose, open_campaign
from harness.records.writer import utc_today
from harness.subjects import progress_on
from harness.targets.home import cache_folder

_F = TypeVar("_F", bound=Callable[..., Any])

_SUBJECT = (
    click.option(
        "--aiter",
        default=DEFAULT_AITER,
        show_default=True,
        metavar="SPEC",
        help="AITER it sees: none | stand-in | tables:DIR | path:DIR | installed.",
    ),
    click.option(
        "--env",
        multiple=True,
        metavar="K=V",
        help="Set a variable in every environment; profiles that set it otherwise are left out. Repeatable.",
    ),
    click.option(
        "--packages",
        default="",
        metavar="+A,-B",
        help="Optional packages that decide routing, taken as present or absent.",
    ),
    click.option(
        "--matrix",
        type=click.Path(path_type=Path),
        default=None,
        help="The matrix to use. [default: matrix.yaml of gfxloop]",
    ),
)

_SELECTION = (
    click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="NAME",
        help="gfx target, product, mark or platform: gfx942, gfx942/MI308X, rocm. Repeatable.",
    ),
    click.option("--tier", "tiers", multiple=True, metavar="NAME", help="guard | route. Repeatable."),
    click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Kernel, family or surface. Repeatable."),
    click.option("--model", "models", multiple=True, metavar="NAME", help="Model of the matrix. Repeatable."),
    click.option(
        "--environment",
        "environments",
        multiple=True,
        metavar="NAME",
        help="Environment profile of the matrix. Repeatable.",
    ),
)


def _apply(options: tuple[Callable[[_F], _F], ...]) -> Callable[[_F], _F]:
    def decorate(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


subject_option = click.option(
    "--subject",
    default=DEFAULT_SUBJECT,
    show_default=True,
    metavar="SPEC",
    help="vLLM under test: installed | path:DIR | pypi:VERSION | git:REPO@REF.",
)
subject_options = _apply(_SUBJECT)
selection_options = _apply(_SELECTION)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout (docs/json.md).")
cache_option = click.option("--no-cache", is_flag=True, help="Ask every cell again, whatever is cached.")


def request_of(words: dict[str, Any], *, subject: str | None = None, ids: tuple[str, ...] = ()) -> Request:
    """What a command's options ask for. ``subject`` and ``ids`` are for commands that have other words for them."""
    return Request(
        matrix=words["matrix"] or matrix_path(),
        subject=subject or words["subject"],
        aiter=words["aiter"],
        env=tuple(words["env"]),
        packages=words["packages"],
        targets=tuple(words.get("targets", ())),
        tiers=tuple(words.get("tiers", ())),
        kernels=tuple(words.get("kernels", ())),
        models=tuple(words.get("models", ())),
        environments=tuple(words.get("environments", ())),
        ids=ids,
    )


def campaign_of(
    words: dict[str, Any], *, subject: str | None = None, ids: tuple[str, ...] = (), no_cache: bool = False
) -> Campaign:
    """Open the campaign that a command's options describe, and tell the user its notes on stderr."""
    request = request_of(words, subject=subject, ids=ids)
    campaign = open_campaign(
        request,
        choose(request, utc_today()),
        cache=cache_folder(),
        progress=progress_on(sys.stderr),
        observations=not no_cache,
    )
    for note in campaign.notes:
        click.echo(f"gfxloop: {note}", err=True)
    return campaign
