from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pytest
import torch

from harness.adapters.dtypes import decide_dtype
from harness.matrix import Matrix
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record

Ask = Callable[..., Any]

NCCL = "vllm.distributed.device_communicators.pynccl_wrapper"
UTILS = "vllm.utils.torch_utils"


class Table:
    """As ``ncclDataTypeEnum`` before it knew FNUZ."""

    ncclInt8 = 0
    ncclChar = 0
    ncclBfloat16 = 9

    @classmethod
    def from_torch(cls, dtype: Any) -> int:
        if dtype not in (torch.int8, torch.bfloat16):
            raise ValueError(f"Unsupported dtype {dtype}")
        return 0 if dtype is torch.int8 else 9


def get_kv_cache_torch_dtype(name: str, model: Any) -> Any:
    return {"auto": model, "fp8": torch.uint8}[name]


MODULES: Mapping[str, Mapping[str, object]] = {
    NCCL: {"ncclDataTypeEnum": Table},
    "vllm.platforms": {"current_platform": types.SimpleNamespace(fp8_dtype=lambda: torch.float8_e4m3fnuz)},
    "vllm.config.cache": {"CacheDType": Literal["auto", "fp8", "forgotten"]},
    UTILS: {
        "get_kv_cache_torch_dtype": get_kv_cache_torch_dtype,
        "TORCH_DTYPE_TO_NUMPY_DTYPE": {torch.int32: np.int32},
        "LIMITS": types.SimpleNamespace(max=240.0),
        "limits": lambda: (-1.0, 1.0),
    },
}


@pytest.fixture
def ask(stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None], make_cell: Callable[..., Cell]) -> Ask:
    def decide(name: str, member: str | None = None, without: str = "") -> Any:
        stand_modules({module: held for module, held in MODULES.items() if module != without})
        scheme = {} if member is None else {"member": member}
        return decide_dtype(make_cell(name, surface=Surface.DTYPE, scheme=scheme))

    return decide


@pytest.mark.parametrize(
    ("name", "value", "symbol"),
    [
        ("nccl.int8", "ncclInt8", "ncclDataTypeEnum.from_torch"),
        ("nccl.bfloat16", "ncclBfloat16", "ncclDataTypeEnum.from_torch"),
        ("kv.auto", "torch.bfloat16", "get_kv_cache_torch_dtype"),
        ("kv.fp8", "torch.uint8", "get_kv_cache_torch_dtype"),
        ("numpy.int32", "int32", "TORCH_DTYPE_TO_NUMPY_DTYPE"),
    ],
)
def test_a_table_answers_with_the_mapped_value(ask: Ask, name: str, value: str, symbol: str) -> None:
    decision = ask(name)
    assert (decision.ended, decision.chosen, decision.symbol) == (Ended.ANSWERED, value, symbol)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nccl.fp8", "ValueError: Unsupported dtype torch.float8_e4m3fnuz"),
        ("kv.forgotten", "KeyError: 'forgotten'"),
        ("numpy.int64", "TORCH_DTYPE_TO_NUMPY_DTYPE has no torch.int64"),
    ],
)
def test_a_table_without_the_dtype_refuses_and_gives_no_answer(ask: Ask, name: str, words: str) -> None:
    decision = ask(name)
    assert (decision.ended, decision.chosen) == (Ended.REFUSED, None)
    assert decision.detail.startswith(words)


def test_a_dtype_that_the_release_does_not_offer_is_unsupported(ask: Ask) -> None:
    assert ask("kv.of_the_future").detail == "this vLLM has no KV-cache dtype of_the_future"


def test_a_table_that_the_release_lacks_is_unsupported(ask: Ask) -> None:
    assert ask("model.half", without="vllm.config.model").ended is Ended.UNSUPPORTED


@pytest.mark.parametrize(
    ("member", "value"),
    [("utils.torch_utils:LIMITS.max", "240.0"), ("utils.torch_utils:limits", "(-1.0, 1.0)")],
)
def test_a_member_is_shown_and_called_where_it_can_be(ask: Ask, member: str, value: str) -> None:
    assert ask("some.member", member).chosen == value


def test_a_member_that_is_gone_is_unsupported(ask: Ask) -> None:
    assert ask("some.member", "utils.torch_utils:GONE").ended is Ended.UNSUPPORTED


# ---- real vLLM


@pytest.mark.slow
@pytest.mark.parametrize(("version", "chosen"), [("0.14.0", None), ("0.16.0", "ncclFloat8e4m3")])
def test_a_release_whose_collectives_do_not_know_fnuz_is_caught_although_little_else_of_it_imports(
    routed: Callable[..., dict[str, Record]], version: str, chosen: str | None
) -> None:
    words = {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"], "kernels": ["nccl.fp8"]}
    (record,) = routed(version, words).values()
    assert record.chosen == chosen
    assert ("expectation" in {finding.rule for finding in record.findings}) is (chosen is None)


def test_every_kv_cache_dtype_of_the_default_release_is_in_the_matrix(matrix: Matrix, vllm_tree: Any) -> None:
    text = (vllm_tree / "vllm" / "config" / "cache.py").read_text()
    offered = set(text.partition("CacheDType = Literal[")[2].partition("]")[0].split('"')[1::2])
    asked = {cell.kernel.name for cell in matrix.cells if cell.kernel.surface is Surface.DTYPE}
    assert {f"kv.{name}" for name in offered} - asked == {"kv.fp8_inc"}  # of Gaudi, which no target here is
