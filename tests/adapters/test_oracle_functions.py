from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import Any, Literal

import pytest

from harness.adapters import oracle_functions
from harness.adapters.oracle_functions import members, requested_backends, tables

CODE = """
def select_int8_moe_backend(config): return "asked elsewhere"
def _get_priority_backends(): return [Int8MoeBackend.AITER, Int8MoeBackend.TRITON]
def map_backend(runner_backend):
    if runner_backend == "triton":
        return Int8MoeBackend.TRITON
    raise ValueError(f"moe_backend={runner_backend!r} is not supported.")
def _reason(backend, may_have_zp, may_have_bias):
    if backend is Int8MoeBackend.AITER and may_have_zp:
        return "zero points are not supported"
def grows(config, weight_block_size):
    config.size += 1
    return config.size
def takes_a_tensor(backend, tensor): raise AssertionError("tensors are not asked")
"""


class Backend(enum.Enum):
    AITER = "ROCm AITER"
    TRITON = "Triton"


class Layer:
    moe_parallel_config = None
    size = 1


def oracle(code: str = CODE) -> types.ModuleType:
    module = types.ModuleType("vllm.model_executor.layers.fused_moe.oracle.int8")
    vars(module).update(Int8MoeBackend=Backend, imported=_elsewhere)
    exec(compile(code, "/subject/vllm/int8.py", "exec"), vars(module))
    return module


def _elsewhere(backend: Any) -> str:
    return "the function of another module"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, stand_modules: Callable[..., None]) -> None:
    monkeypatch.setattr(oracle_functions, "moe_config", lambda scheme: Layer())
    monkeypatch.setattr(oracle_functions, "quant_key", lambda name: name)
    monkeypatch.setattr(oracle_functions, "key_names", dict)
    monkeypatch.setattr(oracle_functions, "activations", dict)
    stand_modules({"vllm.config.kernel": {"MoEBackend": Literal["auto", "triton"]}})


def test_each_function_is_asked_over_its_whole_domain_in_the_order_of_the_module() -> None:
    parts = tables(oracle(), "int8", {}).split("; ")
    assert parts[0] == "_get_priority_backends [[AITER TRITON]]"
    assert parts[1] == "map_backend [triton: TRITON | others: ValueError: moe_backend=it is not supported.]"
    assert parts[2].startswith("_reason [AITER: None 2, zero points are not supported 2 #")
    assert parts[2].endswith("TRITON: None]")
    assert [part.split(" ")[0] for part in parts] == ["_get_priority_backends", "map_backend", "_reason", "grows"]


def test_a_function_that_changes_its_layer_is_given_a_fresh_one_each_time() -> None:
    assert tables(oracle(), "int8", {}).endswith("grows [all: 2]")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("may_have_zp:", "may_have_bias:"),
        ("if backend is Int8MoeBackend.AITER and", "if"),
        ('== "triton"', '!= "triton"'),
        ("[Int8MoeBackend.AITER, Int8MoeBackend.TRITON]", "[Int8MoeBackend.TRITON, Int8MoeBackend.AITER]"),
    ],
)
def test_an_edit_of_any_function_changes_the_line(was: str, now: str) -> None:
    assert was in CODE
    assert tables(oracle(CODE.replace(was, now)), "int8", {}) != tables(oracle(), "int8", {})


def test_a_domain_that_is_too_large_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_functions, "_MOST", 4)
    assert "_reason" not in tables(oracle(), "int8", {})


def test_backends_that_users_and_oracles_know_are_asked_for_and_one_that_nobody_knows() -> None:
    assert requested_backends() == ("triton", "cpu", "xpu", "no_such_backend")
    assert list(members(oracle())) == [Backend.AITER, Backend.TRITON]
