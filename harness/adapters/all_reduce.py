"""All-reduce kernels of a node: from which size to which size each of them takes a message.

In: the number of ranks, the dtype, and whether the devices are fully connected. Out: a range in words
(``2 MB to 2048 MB``). vLLM's own predicate is asked of an object that has been through no ``__init__``, which would
open shared memory: what that sets is set here instead, from the same sources.
"""

from __future__ import annotations

from typing import Any

from harness.adapters.decision import Missing, find

_KB = 1024
_SIZES = tuple(_KB << power for power in range(4, 23))
"""Sizes of messages that are asked about, in bytes: 16 KB to 4 GB, doubling."""

_COMMUNICATORS = "vllm.distributed.device_communicators"


def quick_reduce_sizes(ranks: int, dtype: str) -> tuple[str, str]:
    """The sizes that ROCm's quantised all-reduce takes, and the predicate that says so."""
    kind = find(f"{_COMMUNICATORS}.quick_all_reduce", "QuickAllReduce")
    if kind is None:
        raise Missing(f"{_COMMUNICATORS}.quick_all_reduce.QuickAllReduce")
    import vllm.distributed.device_communicators.quick_all_reduce as module
    import vllm.envs as envs

    reduce = object.__new__(kind)
    reduce.disabled, reduce._ptr, reduce._flydsl_int4 = True, 0, None  # what its __del__ looks at
    symbol = "QuickAllReduce.should_quick_allreduce"
    if not reduce._rocm_arch_available():
        return "disabled: _rocm_arch_available", "QuickAllReduce._rocm_arch_available"
    regime = envs.VLLM_ROCM_QUICK_REDUCE_QUANTIZATION
    if ranks not in kind._SUPPORTED_WORLD_SIZES:
        return "disabled: _SUPPORTED_WORLD_SIZES", symbol
    if regime == "NONE":
        return "disabled: VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=NONE", symbol
    reduce.disabled, reduce.world_size = False, ranks
    reduce.qr_quant_level = module.QuickReduceRegime[regime]
    reduce.use_fp16_kernels = envs.VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16
    reduce.qr_max_size = module.ops.qr_max_size()
    least = getattr(reduce, "_get_qr_min_size", None)  # vllm<0.22: no variable for it
    reduce.qr_min_size = least(reduce.qr_max_size) if least else None
    words = _range(reduce.should_quick_allreduce, dtype)
    reduce.disabled = True
    return words, symbol


def custom_reduce_sizes(ranks: int, dtype: str, *, connected: bool = True) -> tuple[str, str]:
    """The sizes that the peer-to-peer all-reduce takes, and the predicate that says so."""
    kind = find(f"{_COMMUNICATORS}.custom_all_reduce", "CustomAllreduce")
    if kind is None:
        raise Missing(f"{_COMMUNICATORS}.custom_all_reduce.CustomAllreduce")
    from vllm.platforms import current_platform

    if not current_platform.use_custom_allreduce():
        return "disabled: use_custom_allreduce", current_platform.use_custom_allreduce.__qualname__
    symbol = "CustomAllreduce.should_custom_ar"
    if ranks not in kind._SUPPORTED_WORLD_SIZES:
        return "disabled: _SUPPORTED_WORLD_SIZES", symbol
    reduce = object.__new__(kind)
    reduce.disabled, reduce._ptr, reduce.world_size = False, 0, ranks
    reduce.fully_connected = connected
    reduce.max_size, reduce.batch_invariant = 8192 * _KB, False  # the default of __init__
    words = _range(reduce.should_custom_ar, dtype)
    reduce.disabled = True
    return words, symbol


def _range(takes: Any, dtype: str) -> str:
    """``16 KB to 4096 MB``, or ``no size``; a gap in between would be told as two ranges."""
    import torch

    of = getattr(torch, dtype)
    answers = [bool(takes(torch.empty(size // of.itemsize, dtype=of, device="meta"))) for size in _SIZES]
    ranges: list[list[int]] = []
    for size, taken, before in zip(_SIZES, answers, [False, *answers], strict=False):
        if taken and not before:
            ranges.append([size])
        if taken:
            ranges[-1][1:] = [size]
    return "; ".join(f"{_words(part[0])} to {_words(part[1])}" for part in ranges) or "no size"


def _words(size: int) -> str:
    return f"{size // _KB} KB" if size < _KB * _KB else f"{size // _KB // _KB} MB"
