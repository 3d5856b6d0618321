from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from harness.adapters import operators
from harness.adapters.operators import Operator, operators_of, presence
from harness.model.record import Evidence, Record

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]


def _platform(**answers: bool) -> dict[str, dict[str, object]]:
    methods = {name: functools.partial(bool, value) for name, value in answers.items()}
    return {"vllm.platforms": {"current_platform": types.SimpleNamespace(**methods)}}


@pytest.fixture
def declared() -> Iterator[None]:
    libraries = []
    for namespace, name in [("_C", "gfxloop_there"), ("vllm", "gfxloop_there"), ("_xpu_C", "gfxloop_there")]:
        library: Any = torch.library.Library(namespace, "FRAGMENT")
        library.define(f"{name}(Tensor x) -> Tensor")
        libraries.append(library)
    yield
    for library in libraries:
        library._destroy()


@pytest.fixture
def gpu(stand_modules: Stand, declared: None) -> None:
    stand_modules(_platform(is_cuda_alike=True, is_cpu=False))


ASKED = ("_C::gfxloop_there", "_C::gfxloop_gone", "vllm::gfxloop_there", "vllm::gfxloop_gone", "_xpu_C::gfxloop_there")


def test_an_operator_of_the_build_is_there_or_missing_and_of_another_package_nothing_is_said(gpu: None) -> None:
    assert presence(ASKED) == (
        Operator("_C::gfxloop_there", True),
        Operator("_C::gfxloop_gone", False),
        Operator("vllm::gfxloop_there", True),
    )


def test_an_operator_that_vllm_registers_for_aiter_can_be_missing(gpu: None) -> None:
    assert presence(["vllm::rocm_aiter_gone"]) == (Operator("vllm::rocm_aiter_gone", False),)


def test_where_the_build_is_a_package_nothing_of_it_is_missing(stand_modules: Stand, declared: None) -> None:
    stand_modules(_platform(is_cuda_alike=False, is_cpu=False))
    assert presence(ASKED) == (Operator("vllm::gfxloop_there", True),)


def test_a_fact_reads_as_evidence() -> None:
    assert Operator("_C::f", True).evidence == Evidence(question="operator _C::f", answer="declared")
    assert Operator("_C::f", False).evidence == Evidence(question="operator _C::f", answer="missing")


def test_one_that_is_missing_is_told_only_where_it_is_surely_reached(
    gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = {"_C::gfxloop_gone": True, "_C::gfxloop_there": False, "_C::gfxloop_perhaps": False}
    monkeypatch.setattr(operators, "reached_by_methods", lambda kind, names: reached)
    operators._operators_of.cache_clear()
    assert operators_of(int) == (Operator("_C::gfxloop_gone", False), Operator("_C::gfxloop_there", True))
    operators._operators_of.cache_clear()


def test_a_kernel_of_the_release_has_its_operator(gfx942: dict[str, Record]) -> None:
    chosen = [record for record in gfx942.values() if record.chosen == "ROCmFP8ScaledMMLinearKernel"]
    assert chosen
    for record in chosen:
        assert Evidence(question="operator _rocm_C::wvSplitKQ", answer="declared") in record.evidence
