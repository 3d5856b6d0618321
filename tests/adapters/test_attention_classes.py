"""Classes and deciding functions of real vLLM's attention modules, its platform and AITER's gates."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from harness.adapters import attention_classes
from harness.adapters.attention_classes import decide_attention_modules
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Outcome, Record

CODE = """
class AttentionBackend:
    @classmethod
    def supports_sink(cls) -> bool: return False
    @classmethod
    def supports_head_size(cls, head_size: int) -> bool: return True

class RocmBackend(AttentionBackend):
    supported_kv_cache_dtypes = ["auto", "fp8"]
    @classmethod
    def supports_sink(cls) -> bool: return True

class PlainBackend(AttentionBackend):
    pass

class Builder:
    @staticmethod
    def supports_graphs() -> bool: return True

def is_new_layout(use_mla: bool) -> bool: return use_mla
"""


@pytest.fixture
def ask(make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    module = types.ModuleType("vllm.v1.attention.backends.rocm_some")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(CODE, "vllm/some.py", "exec"), vars(module))
    found = {"rocm_some": module}
    monkeypatch.setattr(
        attention_classes, "_modules", lambda pattern: iter([found[pattern]] if pattern in found else [])
    )
    monkeypatch.setattr(attention_classes, "_families", lambda: (vars(module)["AttentionBackend"],))

    def decide(of: str, modules: str = "rocm_some") -> Any:
        scheme = {"of": of, "modules": modules}
        return decide_attention_modules(make_cell("x", surface=Surface.ATTENTION_BACKEND, scheme=scheme))

    return decide


def test_a_class_is_told_as_far_as_it_answers_otherwise_than_its_base(ask):
    line = ask("classes").chosen
    assert "AttentionBackend [supports_head_size: all: True; supports_sink: False]" in line
    assert "RocmBackend [supported_kv_cache_dtypes: [auto fp8]; supports_sink: True]" in line
    assert "PlainBackend []" in line
    assert "Builder" not in line


def test_functions_and_classes_that_are_no_backends_are_told(ask):
    assert ask("functions").chosen == "rocm_some.is_new_layout [no: False, yes: True]; Builder.supports_graphs [True]"


def test_a_release_without_such_a_module_is_unsupported(ask):
    decision = ask("classes", "no_such_module")
    assert decision.ended is Ended.UNSUPPORTED
    assert "no attention module like 'no_such_module'" in decision.detail


MODULES = ("classes.rocm", "classes.mla_prefill", "functions.rocm")


@pytest.fixture(scope="module")
def real(routed: Callable[..., dict[str, Record]]) -> dict[str, Record]:
    where = {"targets": ["gfx942/MI300X", "gfx1201"], "environments": ["aiter_off"]}
    records = routed("0.33.0", {**where, "kernels": ["functions", *MODULES]}).values()
    return {f"{record.target} {record.kernel}": record for record in records}


def test_real_vllm_answers_on_every_target(real):
    assert {name: record.detail for name, record in real.items() if record.outcome is not Outcome.PASSED} == {}
    assert len(real) == 14


@pytest.mark.parametrize("name", ["functions.rocm", "gates"])
def test_conditions_on_the_target_are_posed_so_that_an_edit_shows_wherever_one_looks(real, name):
    assert real[f"gfx942 {name}"].chosen == real[f"gfx1201 {name}"].chosen


def test_real_vllm_s_classes_and_conditions_are_in_the_lines(real):
    assert "RocmAttentionBackend [" in real["gfx942 classes.rocm"].chosen
    assert "AiterMLABackend [" not in real["gfx942 classes.rocm"].chosen  # it is below mla
    assert "is_fp8bmm_enabled [" in real["gfx942 gates"].chosen
    assert "get_valid_backends" in real["gfx942 RocmPlatform"].chosen
