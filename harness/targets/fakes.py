"""Shapes that a declared operator gives for meta tensors, where vLLM itself registers no fake implementation.

In: an operator's schema. Out: a function of its arguments that gives meta tensors, or None where there is no rule. An
operator without a result changes its arguments at most, so its rule is general; each of the others has one of its own,
after the allocation in vLLM's ``csrc`` that is named beside it. Nothing is ever computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Rule = Callable[..., Any]

_CPU_TILE = 16
"""TILE_N of ``csrc/cpu/sgl-kernels/common.h``: a narrower weight is not packed."""


RELEASING = frozenset({"_C::release_dnnl_matmul_handler"})
"""Operators that only give back a handle: they run without a tensor, when Python collects its owner, and do nothing."""


def rule_of(namespace: str, schema: str) -> Rule | None:
    """The rule of one operator, or None."""
    if schema.replace(" ", "").endswith("->()"):
        return _nothing
    return _RULES.get(f"{namespace}::{schema.partition('(')[0]}")


def are_meta(args: Iterable[object], kwargs: Mapping[str, object]) -> bool:
    """Whether a meta tensor is among the arguments of a call, in lists too. Small tensors beside it may be real."""
    import torch

    every: list[object] = []
    for argument in (*args, *kwargs.values()):
        every += argument if isinstance(argument, list | tuple) else [argument]
    return any(isinstance(one, torch.Tensor) and one.device.type == "meta" for one in every)


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None


def _by_rows(weight: Any, tokens: Any, *_: object, **__: object) -> Any:
    """Weight [N, K or packed], tokens [M, K] -> [M, N]."""
    return tokens.new_empty((tokens.size(0), weight.size(0)))


def _by_rows_after(tokens: Any, weight: Any, *_: object, **__: object) -> Any:
    """Tokens [M, K], weight [N, K or packed] -> [M, N]."""
    return _by_rows(weight, tokens)


def _by_columns(tokens: Any, weight: Any, *_: object, **__: object) -> Any:
    """Tokens [M, K], weight [packed K, N] -> [M, N]."""
    return tokens.new_empty((tokens.size(0), weight.size(1)))


def _router(tokens: Any, weight: Any, *_: object, **__: object) -> Any:
    """Tokens [M, K], weight [N, K] -> [M, N] in float32."""
    import torch

    return tokens.new_empty((tokens.size(0), weight.size(0)), dtype=torch.float32)


def _grouped_topk(scores: Any, _groups: Any, _top_groups: Any, top: int, *_: object, **__: object) -> Any:
    """Scores [M, E] -> weights [M, top] in float32 and experts [M, top] in int32."""
    import torch

    shape = (scores.size(0), top)
    return scores.new_empty(shape, dtype=torch.float32), scores.new_empty(shape, dtype=torch.int32)


def _like_first(first: Any, *_: object, **__: object) -> Any:
    import torch

    return torch.empty_like(first)


def _first(first: Any, *_: object, **__: object) -> Any:
    return first


def _second(_one: Any, second: Any, *_: object, **__: object) -> Any:
    return second


def _handle(*_: object, **__: object) -> int:
    """A handle of the library's own, which nobody but its operators looks at."""
    return 1


def _padded_heads(
    query: Any, _kv: Any, _cache: Any, _slots: Any, _positions: Any, _table: Any, heads: int, *_: object, **__: object
) -> Any:
    """Query [M, H, D] -> [M, padded H, D], or nothing where the padded H is 0."""
    return query.new_empty((query.size(0), heads, query.size(2)) if heads else (0,))


def _packed(weight: Any) -> Any:
    """Weight [N, K] in the same shape, or [K, N] in float32 where N is narrower than a tile."""
    import torch

    if weight.dim() == 2 and weight.size(0) < _CPU_TILE:
        return weight.new_empty((weight.size(1), weight.size(0)), dtype=torch.float32)
    return torch.empty_like(weight)


_RULES: Mapping[str, Rule] = {
    # rocm/skinny_gemms.cu, rocm/skinny_gemms_int4.cu
    "_rocm_C::LLMM1": _by_rows,
    "_rocm_C::wvSplitK": _by_rows,
    "_rocm_C::wvSplitKrc": _by_rows_after,
    "_rocm_C::wvSplitK_int4_g": _by_rows,
    # rocm/q_gemm_rdna3.cu, rocm/q_gemm_rdna3_wmma.cu, rocm/mxfp4_w4a8_gemv_rdna3.cu
    "_rocm_C::gptq_gemm_rdna3": _by_columns,
    "_rocm_C::gptq_gemm_rdna3_wmma": _by_columns,
    "_rocm_C::mxfp4_w4a8_gemv_rdna3": _by_rows_after,
    # quantization/gptq/q_gemm.cu, permute_cols.cu, torch_bindings.cpp
    "_C::gptq_gemm": _by_columns,
    "_C::permute_cols": _like_first,
    "_C::weak_ref_tensor": _first,
    # fused_deepseek_v4_qnorm_rope_kv_insert_kernel.cu
    "_C::fused_deepseek_v4_qnorm_rope_kv_rope_quant_insert": _padded_heads,
    # moe/moe_wna16.cu, moe/router_gemm.cu, moe/grouped_topk_kernels.cu, marlin/marlin_int4_fp8_preprocess.cu
    "_moe_C::moe_wna16_gemm": _second,
    "_moe_C::router_gemm_bf16_fp32": _router,
    "_moe_C::grouped_topk": _grouped_topk,
    "_C::marlin_int4_fp8_preprocess": _like_first,
    # cpu/sgl-kernels/gemm.cpp, cpu/sgl-kernels/moe.cpp, cpu/dnnl_kernels.cpp, cpu/sgl-kernels/conv.cpp
    "_C::convert_weight_packed": _packed,
    "_C::convert_scale_packed": _like_first,
    "_C::weight_packed_linear": _by_rows_after,
    "_C::fused_experts_cpu": _like_first,
    "_C::create_onednn_mm_handler": _handle,
    "_C::create_onednn_scaled_mm_handler": _handle,
    "_C::causal_conv1d_weight_pack": _like_first,
    "_C::causal_conv1d_fwd_cpu": _like_first,
    "_C::causal_conv1d_update_cpu": _like_first,
}
