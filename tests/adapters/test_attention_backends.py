from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.adapters import attention_backends
from harness.adapters.attention_backends import decide_attention_backend
from harness.matrix import Matrix
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Outcome, Record

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]
Routed = Callable[..., dict[str, Record]]

BACKEND = """
class Backend:
    forward_includes_kv_cache_update = True
    supports_kv_cache_update_bypass = True
    supported_kv_cache_dtypes = ["turboquant"]

    @staticmethod
    def get_name():
        return "SOME"

    @staticmethod
    def get_impl_cls():
        return Impl

    @staticmethod
    def get_builder_cls():
        return Impl

    @staticmethod
    def get_kv_cache_shape(num_blocks, block_size, num_kv_heads, head_size, cache_dtype_str="auto"):
        if cache_dtype_str == "auto":
            raise ValueError("no preset auto")
        return (num_blocks, 2, block_size, num_kv_heads, head_size)

    @staticmethod
    def get_supported_kernel_block_sizes():
        return [MultipleOf(16), 32]

    @classmethod
    def supports_head_size(cls, head_size):
        return head_size in (64, 128)

    @classmethod
    def supports_mm_prefix(cls):
        return CLAIM

    @classmethod
    def supports_combination(cls, head_size, dtype):
        raise AssertionError("not without a configuration")

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability >= (9, 4)


class Impl:
    pass  # CODE


class MultipleOf:
    def __init__(self, base):
        self.base = base
"""


@pytest.fixture
def ask(
    stand_modules: Stand, make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Any]:
    """Asks a registry whose member SOME stands for the class above."""

    def decide(
        *, claim: bool = False, code: str = "", error: Exception | None = None, change: str = "", **scheme: object
    ) -> Any:
        text = BACKEND.replace("CLAIM", str(claim)).replace("CODE", code).replace("(64, 128)", change or "(64, 128)")
        path = tmp_path / f"vllm_some_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        module = types.ModuleType("vllm.some")
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), vars(module))
        monkeypatch.setitem(sys.modules, "vllm.some", module)

        def get_class() -> type:
            if error is not None:
                raise error
            return module.Backend  # type: ignore[no-any-return]

        member = types.SimpleNamespace(name="SOME", get_class=get_class, get_path=lambda: "vllm.some.Backend")
        registry = types.SimpleNamespace(__members__={"SOME": member})
        platform = types.SimpleNamespace(get_device_capability=lambda: (9, 4))
        stand_modules(
            {
                "vllm.v1.attention.backends.registry": {"AttentionBackendEnum": registry},
                "vllm.attention.backends.registry": {},
                "vllm.platforms": {"current_platform": platform},
                "vllm.config": {},
                "vllm.config.cache": {},
            }
        )
        return decide_attention_backend(make_cell("SOME", surface=Surface.ATTENTION_BACKEND, scheme=scheme))

    return decide


def test_a_profile_says_all_that_is_accepted_in_one_line(ask: Callable[..., Any]) -> None:
    decision = ask()
    assert (decision.ended, decision.symbol) == (Ended.ANSWERED, "Backend")
    assert decision.chosen == (
        "Backend: compute_capability; head_size=64, 128; kv_cache_update_bypass; name=SOME; impl_cls=Impl; "
        "builder_cls=Impl; supported_kernel_block_sizes=[MultipleOf(16), 32]; kv_cache_shape=[7, 2, 16, 8, 128]"
    )
    accepted = {item.name: item.accepted for item in decision.candidates}
    assert accepted == {
        "supports_compute_capability": True,
        "supports_head_size": True,
        "supports_kv_cache_update_bypass": True,
        "supports_mm_prefix": False,
    }


def test_a_change_of_one_answer_changes_the_line_and_nothing_else_does(ask: Callable[..., Any]) -> None:
    assert ask().chosen == ask(code="another comment").chosen
    assert ask().chosen != ask(change="(64, 128, 256)").chosen
    assert ask().chosen != ask(claim=True, code="mm_prefix").chosen


def test_a_question_that_only_a_device_can_answer_is_left_out(ask: Callable[..., Any]) -> None:
    assert "head_size=" not in ask(without="supports_head_size").chosen


def test_one_predicate_alone_is_answered_with_its_own_symbol(ask: Callable[..., Any]) -> None:
    decision = ask(ask="supports_mm_prefix")
    assert (decision.chosen, decision.symbol) == ("False", "Backend.supports_mm_prefix")


def test_what_the_release_lacks_is_unsupported(ask: Callable[..., Any]) -> None:
    assert ask(ask="supports_dcp").ended is Ended.UNSUPPORTED
    assert ask(backend="LATER").detail == "this vLLM has no attention backend LATER"


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (ValueError("Backend CUSTOM must be registered before use"), Ended.UNSUPPORTED),
        (ModuleNotFoundError("No module named 'flashinfer'", name="flashinfer"), Ended.UNSUPPORTED),
        (ImportError("On ROCm, use upstream flash_attn."), Ended.UNSUPPORTED),
        (ImportError("cannot import name 'x' from 'vllm.y'", name="vllm.y"), Ended.RAISED),
    ],
)
def test_what_is_not_here_is_unsupported_and_a_broken_module_is_a_fault(
    ask: Callable[..., Any], error: Exception, ended: Ended
) -> None:
    assert ask(error=error).ended is ended


def test_a_claim_that_no_code_stands_behind_is_found(ask: Callable[..., Any]) -> None:
    (finding,) = ask(claim=True).findings
    assert (finding.rule, finding.symbol) == ("claim_without_code", "Backend.supports_mm_prefix")
    assert ask(claim=True, ask="supports_mm_prefix").findings == (finding,)


def test_a_claim_with_code_or_without_a_claim_is_sound(ask: Callable[..., Any]) -> None:
    assert ask(claim=True, code="mm_prefix_range").findings == ()
    assert ask().findings == ()


def test_a_capability_is_asked_with_the_device_s_own(ask: Callable[..., Any]) -> None:
    assert ask(ask="supports_compute_capability").chosen == "True"


def test_a_value_is_written_without_addresses() -> None:
    value = types.SimpleNamespace(name="LBNHC")
    assert attention_backends._text([int, value, (1, None)]) == "[int, LBNHC, [1, None]]"


# ---- real releases


def test_the_matrix_has_every_backend_of_the_newest_release(vllm_tree: Path, matrix: Matrix) -> None:
    tree = ast.parse((vllm_tree / "vllm/v1/attention/backends/registry.py").read_text())
    (registry,) = (x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == "AttentionBackendEnum")
    members = {item.targets[0].id for item in registry.body if isinstance(item, ast.Assign)}  # type: ignore[attr-defined]
    asked = {cell.kernel.name for cell in matrix.cells if cell.kernel.surface is Surface.ATTENTION_BACKEND}
    assert members - asked == set()


def test_a_claimed_multimodal_prefix_is_found_in_the_release_that_claims_it(routed: Routed) -> None:
    words = {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"], "kernels": ["ROCM_ATTN", "TRITON_ATTN"]}
    records = {record.kernel: record for record in routed("0.31.0", words).values()}
    assert records["TRITON_ATTN"].outcome is Outcome.PASSED
    (finding,) = records["ROCM_ATTN"].findings
    assert (finding.rule, finding.symbol) == ("claim_without_code", "RocmAttentionBackend.supports_mm_prefix")
