from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness.adapters.guards import decide_guard
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record

NAME = "w8a8_triton_block_scaled_mm"
UTILS = "vllm.model_executor.layers.quantization.utils.fp8_utils"
DTYPE = torch.float8_e4m3fn

Tensor = Any


def exact(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, block: list[int], dtype: Any) -> Tensor:
    """The float32 path, written once more."""
    left = a.float() * a_scale.repeat_interleave(block[1], 1)
    right = b.float() * b_scale.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return (left @ right.T).to(dtype)


def without_scales(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, block: list[int], dtype: Any) -> Tensor:
    return (a.float() @ b.float().T).to(dtype)


def slightly_off(*arguments: Any) -> Tensor:
    return exact(*arguments) * (1 + 1e-4)


def not_a_number(*arguments: Any) -> Tensor:
    return exact(*arguments) * float("nan")


def launches(*_arguments: Any) -> Tensor:
    return getattr(importlib.import_module(UTILS), f"_{NAME}")[(1,)](num_warps=4)


def imports_rocm(*_arguments: Any) -> Tensor:
    return importlib.import_module("no_such_platform")


@pytest.fixture
def ask(
    stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None], make_cell: Callable[..., Cell]
) -> Callable[[object], Any]:
    """Asks a module whose guarded function is the one given."""

    def decide(function: object) -> Any:
        own = {NAME: function, f"_{NAME}": "the Triton kernel"} if function else {}
        platform = type("Platform", (), {"fp8_dtype": staticmethod(lambda: DTYPE)})
        packages = ("vllm", "vllm.model_executor", "vllm.model_executor.layers")
        parents = (
            *packages,
            "vllm.model_executor.layers.quantization",
            "vllm.model_executor.layers.quantization.utils",
        )
        stand_modules({name: {"__path__": []} for name in parents})
        stand_modules({UTILS: own, "vllm.platforms": {"current_platform": platform}})
        parent = importlib.import_module("vllm.model_executor.layers.quantization.utils")
        vars(parent)["fp8_utils"] = importlib.import_module(UTILS)
        return decide_guard(make_cell(NAME, surface=Surface.GUARD))

    return decide


def test_a_function_that_reaches_its_kernel_is_launched(ask: Callable[[object], Any]) -> None:
    decision = ask(launches)
    assert (decision.ended, decision.chosen, decision.symbol) == (Ended.ANSWERED, "launched", NAME)


def test_a_function_that_runs_to_its_end_with_the_right_numbers_is_completed(ask: Callable[[object], Any]) -> None:
    decision = ask(exact)
    assert (decision.chosen, decision.findings) == ("completed", ())
    assert float(decision.evidence[0].answer) < 1e-5


@pytest.mark.parametrize("function", [without_scales, slightly_off, not_a_number])
def test_wrong_numbers_are_a_finding(ask: Callable[[object], Any], function: object) -> None:
    (finding,) = ask(function).findings
    assert (finding.rule, finding.symbol) == ("numerics", NAME)
    assert "expected at most 1e-05" in finding.message


def test_an_error_on_the_way_is_an_observation(ask: Callable[[object], Any]) -> None:
    decision = ask(imports_rocm)
    assert decision.ended is Ended.RAISED
    assert "No module named 'no_such_platform'" in decision.detail


@pytest.mark.parametrize(("module", "ended"), [("triton", Ended.UNSUPPORTED), ("torch", Ended.RAISED)])
def test_a_placeholder_of_triton_that_lacks_a_function_is_no_fault_of_the_guard(
    ask: Callable[[object], Any], module: str, ended: Ended
) -> None:
    def calls(*_arguments: Any) -> Tensor:
        return types.ModuleType(module).cdiv(1, 2)

    decision = ask(calls)
    assert decision.ended is ended
    assert "cdiv" in decision.detail


@pytest.mark.parametrize("function", [exact, launches, imports_rocm])
def test_the_kernel_is_put_back_whatever_happens(ask: Callable[[object], Any], function: object) -> None:
    ask(function)
    assert getattr(importlib.import_module(UTILS), f"_{NAME}") == "the Triton kernel"


def test_a_release_without_the_function_is_unsupported(ask: Callable[[object], Any]) -> None:
    decision = ask(None)
    assert (decision.ended, decision.detail) == (Ended.UNSUPPORTED, f"this vLLM has no function fp8_utils.{NAME}")


# ---- real vLLM


@pytest.mark.parametrize("target", ["gfx942.MI300X/aiter_off", "sm90.H100/default", "xpu/default", "cpu/default"])
def test_the_default_release_reaches_its_kernel_on_every_platform(routes: dict[str, Record], target: str) -> None:
    record = routes[f"guard/guard/{target}/{NAME}"]
    assert (record.chosen, record.outcome, record.findings) == ("launched", "passed", ())


def test_on_gfx1250_the_float32_path_runs_and_its_numbers_are_right(routed: Callable[..., dict[str, Record]]) -> None:
    (record,) = routed("0.33.0", {"targets": ["gfx1250"], "kernels": ["guard"]}).values()
    assert (record.chosen, record.outcome, record.findings) == ("completed", "passed", ())
    assert record.evidence[0].question.startswith("largest error against float64")
