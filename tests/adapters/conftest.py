"""Answers of real vLLM that these tests share, and a way to stand small modules where vLLM's would be."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping

import pytest

from harness.model.record import Record

KERNELS = ["linear", "platform", "allowlist", "guard"]
MODELS = ["qwen3-0.6b"]


@pytest.fixture(scope="session")
def gfx942(routed: Callable[..., dict[str, Record]]) -> dict[str, Record]:
    """MI300X with AITER off: every kernel on one small model, and all that has no model."""
    return _all(routed, "gfx942/MI300X", "aiter_off")


@pytest.fixture(scope="session")
def routes(routed: Callable[..., dict[str, Record]], gfx942: dict[str, Record]) -> dict[str, Record]:
    """The same on one target of each platform, and MI300X with AITER on."""
    others = [_all(routed, name, "default") for name in ("sm90", "xpu", "cpu", "none")]
    found = {key: record for records in (gfx942, *others) for key, record in records.items()}
    on = routed(targets=["gfx942/MI300X"], environments=["aiter_on"], kernels=["linear"], models=MODELS)
    return {**found, **on, **routed(targets=["gfx942/MI300X"], environments=["aiter_on"], kernels=["aiter_gate"])}


def _all(routed: Callable[..., dict[str, Record]], target: str, environment: str) -> dict[str, Record]:
    words = {"targets": [target], "environments": [environment]}
    if target == "none":
        return routed(**words, kernels=["platform", "allowlist"])
    without_model = [name for name in KERNELS if name != "linear"]
    return {**routed(**words, kernels=["linear"], models=MODELS), **routed(**words, kernels=without_model)}


@pytest.fixture
def stand_modules(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Mapping[str, object]]], None]:
    """Puts modules with just these attributes where an import finds them, for the length of the test."""

    def stand(modules: Mapping[str, Mapping[str, object]]) -> None:
        for name, attributes in modules.items():
            module = types.ModuleType(name)
            vars(module).update(attributes)
            monkeypatch.setitem(sys.modules, name, module)

    return stand
