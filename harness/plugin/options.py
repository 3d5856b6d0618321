"""The plugin's options, and the request they make. The words are those of ``gfxloop check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bundled import matrix_path, suites_dir
from harness.probes.campaign import DEFAULT_AITER, DEFAULT_SUBJECT, Request

_REPEATABLE = {
    "--env": "set a variable on top of each environment profile (K=V); profiles that set it otherwise are left out",
    "--target": "gfx target, product, mark or platform",
    "--tier": "guard | route",
    "--kernel": "kernel, family or surface",
    "--model": "model of the matrix",
    "--environment": "environment profile of the matrix",
}


def add_options(parser: pytest.Parser) -> None:
    """Add the options, in a group of their own."""
    group = parser.getgroup("gfxloop", "vLLM kernel routing on simulated and attached targets")
    group.addoption("--subject", default=DEFAULT_SUBJECT, help="installed | path:DIR | pypi:VERSION | git:REPO@REF")
    group.addoption("--aiter", default=DEFAULT_AITER, help="none | stand-in | tables:DIR | path:DIR | installed")
    group.addoption("--packages", default="", help="+A,-B: optional packages taken as present or absent")
    group.addoption("--matrix", default=None, help="the matrix to use (default: matrix.yaml of gfxloop)")
    group.addoption("--out", default=None, help="write a run directory with records and reports here")
    for name, text in _REPEATABLE.items():
        group.addoption(name, action="append", default=[], help=f"{text}; repeatable", dest=f"gfxloop_{name[2:]}")


def request_of(config: pytest.Config) -> Request:
    """The request that the options make."""
    many = {name: tuple(config.getoption(f"gfxloop_{name[2:]}")) for name in _REPEATABLE}
    return Request(
        matrix=Path(config.getoption("--matrix") or matrix_path()),
        subject=config.getoption("--subject"),
        aiter=config.getoption("--aiter"),
        packages=config.getoption("--packages"),
        env=many["--env"],
        targets=many["--target"],
        tiers=many["--tier"],
        kernels=many["--kernel"],
        models=many["--model"],
        environments=many["--environment"],
    )


def wants_suites(config: pytest.Config) -> bool:
    """Whether this run is about gfxloop's suites: they are named, lie below the root, or an option asks for them."""
    suites = suites_dir().resolve()
    named = [Path(word.partition("::")[0]).resolve() for word in config.args if not word.startswith("-")]
    below = any(path == suites or suites in path.parents or path in suites.parents for path in named)
    return below or config.getoption("--matrix") is not None
