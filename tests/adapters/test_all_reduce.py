from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness.adapters import all_reduce
from harness.adapters.all_reduce import custom_reduce_sizes, quick_reduce_sizes
from harness.adapters.decision import Missing

Stand = Callable[..., None]
MB = 1024 * 1024


class Regime(enum.Enum):
    INT4 = 3


class QuickAllReduce:
    _SUPPORTED_WORLD_SIZES = (2, 8)
    arch = True
    qr_min_size: int | None

    def __init__(self) -> None:
        raise AssertionError("it would open shared memory")

    def _rocm_arch_available(self) -> bool:
        return self.arch

    def _get_qr_min_size(self, _largest: int) -> int | None:
        return None

    def should_quick_allreduce(self, message: Any) -> bool:
        size = message.numel() * message.element_size()
        least = 4 * MB if self.qr_min_size is None else self.qr_min_size
        return message.dtype is torch.bfloat16 and least <= size <= self.qr_max_size and not self.disabled

    disabled: bool
    qr_max_size: int


class CustomAllreduce:
    _SUPPORTED_WORLD_SIZES = (2, 8)
    world_size: int
    fully_connected: bool
    max_size: int

    def should_custom_ar(self, message: Any) -> bool:
        return (
            self.world_size == 2 or self.fully_connected
        ) and message.numel() * message.element_size() < self.max_size


@pytest.fixture
def stand(stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None]) -> Stand:
    def stand(*, regime: str = "INT4", arch: bool = True, custom: bool = True, without: str = "") -> None:
        quick = {
            "QuickAllReduce": type("QuickAllReduce", (QuickAllReduce,), {"arch": arch}),
            "QuickReduceRegime": Regime,
            "ops": types.SimpleNamespace(qr_max_size=lambda: 64 * MB),
        }
        envs = {
            "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": regime,
            "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16": True,
        }
        platform = types.SimpleNamespace(
            use_custom_allreduce=test_a_kernel_is_said_to_be_off_by_the_gate_that_closes_it
        )
        platform.use_custom_allreduce = _yes if custom else _no
        modules = {
            "vllm": {"envs": types.SimpleNamespace(**envs)},
            "vllm.envs": envs,
            "vllm.platforms": {"current_platform": platform},
            f"{all_reduce._COMMUNICATORS}.quick_all_reduce": quick,
            f"{all_reduce._COMMUNICATORS}.custom_all_reduce": {"CustomAllreduce": CustomAllreduce},
        }
        packages = {"vllm.distributed": {}, all_reduce._COMMUNICATORS: {}}
        stand_modules(
            {**packages, **{name: held for name, held in modules.items() if not without or without not in name}}
        )

    return stand


def _yes() -> bool:
    return True


def _no() -> bool:
    return False


def test_a_range_is_told_from_the_first_size_to_the_last(stand: Stand) -> None:
    stand()
    assert quick_reduce_sizes(8, "bfloat16") == ("4 MB to 64 MB", "QuickAllReduce.should_quick_allreduce")
    assert quick_reduce_sizes(8, "float32")[0] == "no size"
    assert custom_reduce_sizes(8, "bfloat16")[0] == "16 KB to 4 MB"
    assert custom_reduce_sizes(8, "bfloat16", connected=False)[0] == "no size"
    assert custom_reduce_sizes(2, "bfloat16", connected=False)[0] == "16 KB to 4 MB"


def test_a_kernel_is_said_to_be_off_by_the_gate_that_closes_it(stand: Stand) -> None:
    stand()
    assert quick_reduce_sizes(3, "bfloat16")[0] == "disabled: _SUPPORTED_WORLD_SIZES"
    assert custom_reduce_sizes(3, "bfloat16")[0] == "disabled: _SUPPORTED_WORLD_SIZES"
    stand(regime="NONE", custom=False)
    assert quick_reduce_sizes(8, "bfloat16")[0] == "disabled: VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=NONE"
    assert custom_reduce_sizes(8, "bfloat16")[0] == "disabled: use_custom_allreduce"
    stand(arch=False)
    assert quick_reduce_sizes(8, "bfloat16")[0] == "disabled: _rocm_arch_available"


def test_sizes_with_a_gap_are_two_ranges() -> None:
    taken = {16 * 1024, 64 * 1024, 128 * 1024}
    words = all_reduce._range(lambda message: message.numel() * message.element_size() in taken, "float16")
    assert words == "16 KB to 16 KB; 64 KB to 128 KB"


@pytest.mark.parametrize("asked", [quick_reduce_sizes, custom_reduce_sizes])
def test_a_kernel_that_the_release_lacks_is_missing(stand: Stand, asked: Callable[[int, str], object]) -> None:
    stand(without="all_reduce")
    with pytest.raises(Missing, match="all_reduce"):
        asked(8, "bfloat16")
