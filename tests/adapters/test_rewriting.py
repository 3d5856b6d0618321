"""Kernels that rewrite their weights, and calls that reach them: read from the source of a small package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.adapters.rewriting import layout_evidence

BASE = """
class Base:
    def process_weights_after_loading(self, layer): ...
    def apply_weights(self, layer, x): ...
    def is_supported(self, capability=None): ...
    def settings(self): ...
"""
SHUFFLING = (
    BASE
    + """
class Kernel(Base):
    def process_weights_after_loading(self, layer):
        super().process_weights_after_loading(layer)
        layer.weight = rocm_aiter_ops.shuffle_weight(layer.weight)  # noqa: F821

    def apply_prequantized(self, x, weight): ...
"""
)
CALL = "def run(linear, x):\n    return linear.kernel.apply_prequantized(x, linear.weight)\n"

Package = Callable[..., Any]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Package]:
    """Makes a package of files and gives its class ``Kernel``."""
    name = f"small{abs(hash(request.node.name))}"
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(kernels: str, **files: str) -> Any:
        root = tmp_path / name
        root.mkdir()
        (root / "__init__.py").write_text("")
        (root / "kernels.py").write_text(kernels)
        for place, text in files.items():
            path = root / f"{place.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return importlib.import_module(f"{name}.kernels").Kernel

    yield make
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def told(kind: type) -> dict[str, str]:
    return {item.question.removeprefix("Kernel "): item.answer for item in layout_evidence(kind)}


def test_a_call_beside_a_shuffling_kernel_s_own_entry_is_named_with_its_line(package: Package) -> None:
    found = told(package(SHUFFLING, models__m__amd__rocm=CALL))
    assert found.pop("rewrites its weight") == "Kernel.process_weights_after_loading"
    assert found.pop("is called with the plain layout").endswith("/models/m/amd/rocm.py:2")
    assert not found


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("models__m__nvidia__cuda", CALL),  # no kernel that shuffles is there
        ("kernels_of_others", CALL),  # not where layers are run
        ("models__m", CALL.replace("apply_prequantized", "apply_weights")),  # the layer's own way in
        ("models__m", "class Other:\n    def run(self, x):\n        return self.apply_prequantized(x)\n"),
    ],
)
def test_a_shuffling_kernel_that_nobody_else_calls_is_only_said_to_rewrite(
    package: Package, place: str, text: str
) -> None:
    assert list(told(package(SHUFFLING, **{place: text}))) == ["rewrites its weight"]


def test_a_kernel_that_keeps_the_plain_layout_has_nothing_to_tell(package: Package) -> None:
    plain = SHUFFLING.replace("rocm_aiter_ops.shuffle_weight(layer.weight)", "layer.weight.t()  # shuffle_weight(it)")
    assert told(package(plain, models__m=CALL)) == {}


def test_a_kernel_that_inherits_or_calls_the_shuffling_rewrites_as_well(package: Package) -> None:
    heir = SHUFFLING.replace("class Kernel(Base)", "class Parent(Base)")
    calls = (
        "    def process_weights_after_loading(self, layer):\n        super().process_weights_after_loading(layer)\n"
    )
    assert told(package(f"{heir}class Kernel(Parent):\n{calls}")) == {
        "rewrites its weight": "Parent.process_weights_after_loading"
    }


def test_a_kernel_that_replaces_the_shuffling_does_not(package: Package) -> None:
    heir = SHUFFLING.replace("class Kernel(Base)", "class Parent(Base)")
    assert (
        told(package(f"{heir}class Kernel(Parent):\n    def process_weights_after_loading(self, layer): ...\n")) == {}
    )


@pytest.mark.parametrize(("switch", "rewrites"), [(True, True), (False, False)])
def test_what_a_switch_of_the_kernel_keeps_from_running_is_not_told(
    package: Package, switch: bool, rewrites: bool
) -> None:
    line = "        layer.weight = rocm"
    kind = package(SHUFFLING.replace(line, f"        if self.shuffles:\n    {line}"), models__m=CALL)
    kernel = kind()
    kernel.shuffles = switch
    assert bool(layout_evidence(kernel)) is rewrites
    assert layout_evidence(kind), "a class alone may be either"


def test_a_class_without_source_has_nothing_to_tell() -> None:
    made: dict[str, Any] = {"__name__": "harness.made"}
    exec("class Kernel:\n    def process_weights_after_loading(self): shuffle_weight()", made)
    assert layout_evidence(made["Kernel"]) == ()
