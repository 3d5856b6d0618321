"""Operators of a build that only ask what the device or the build can do: pure functions of the target.

In: a target. Out: the functions, by operator name in one of ``NAMESPACES``, for ``build.register``. The source of each
is the file of vLLM 0.33.0's ``csrc`` named beside it, read for CUDA 13.0 with every kernel compiled in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.model.target import Platform, Target

NAMESPACES = ("_C", "_C_custom_ar")
"""Namespaces whose operators may be queries."""

_CPU: Mapping[str, Callable[..., int]] = {
    # cpu/torch_bindings.cpp: the declared CPU (see drivers) has AMX for INT8 and BF16, not for FP8
    "cpu_has_amx_fp8": lambda: False,
}

_SIGNAL_BYTES = 4864
"""sizeof(Signal) of custom_collective_common.cuh with 16 ranks, in bytes: whoever asks wants to see it answered."""

_ROCM: Mapping[str, Callable[..., int]] = {
    # rocm/quickreduce/custom_quickreduce.cu: the default is 2 GB
    "qr_max_size": lambda: 1 << 31,
    # custom_all_reduce.cu
    "meta_size": lambda: _SIGNAL_BYTES,
}

_CUDA: Mapping[str, Callable[..., int]] = {
    # custom_all_reduce.cu
    "meta_size": lambda: _SIGNAL_BYTES,
    # quantization/w8a8/cutlass/scaled_mm_entry.cu
    "cutlass_scaled_mm_supports_fp8": lambda capability: capability >= 89,
    "cutlass_scaled_mm_supports_block_fp8": lambda capability: capability >= 90,
    "cutlass_group_gemm_supported": lambda capability: 90 <= capability < 120,
    # quantization/fp4/nvfp4_scaled_mm_entry.cu
    "cutlass_scaled_mm_supports_fp4": lambda capability: 100 <= capability < 130,
}


def queries_of(target: Target) -> Mapping[str, Callable[..., int]]:
    """The queries that the target's build can answer."""
    return {Platform.ROCM: _ROCM, Platform.CUDA: _CUDA, Platform.CPU: _CPU}.get(target.platform, {})
