"""Answers of real vLLM that these tests share, and a way to stand small modules where vLLM's would be."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping

import pytest

from harness.model.record import Record

Routed = Callable[..., dict[str, Record]]


@pytest.fixture(scope="session")
def gfx942(on_gfx942: Callable[[str], dict[str, Record]]) -> dict[str, Record]:
    """MI300X under the default release."""
    return on_gfx942("0.33.0")


@pytest.fixture(scope="session")
def routes(routed: Routed, gfx942: dict[str, Record]) -> dict[str, Record]:
    """The same, and one target of each other platform."""
    others = {"targets": ["sm90", "xpu", "cpu"], "environments": ["default"]}
    return {
        **gfx942,
        **routed(
            "0.33.0",
            {**others, "kernels": ["platform", "allowlist", "guard"]},
            {**others, "kernels": ["linear"], "models": ["qwen3-0.6b"]},
            {"targets": ["none"], "kernels": ["platform", "allowlist"]},
        ),
    }


@pytest.fixture
def stand_modules(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Mapping[str, object]]], None]:
    """Puts modules with just these attributes where an import finds them, for the length of the test."""

    def stand(modules: Mapping[str, Mapping[str, object]]) -> None:
        for name, attributes in modules.items():
            module = types.ModuleType(name)
            vars(module).update(attributes)
            monkeypatch.setitem(sys.modules, name, module)

    return stand
