"""Which surfaces a file of vLLM serves: where a change of the file can show.

In: a path below the subject's tree. Out: surfaces. One table, the same for every release: a path that a release does
not have matches nothing there. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from harness.model.cell import Surface

_LAYERS = "vllm/model_executor/layers"
_LINEAR = frozenset({Surface.LINEAR, Surface.LINEAR_KERNEL, Surface.ALLOWLIST, Surface.WEIGHTS})
_MOE = frozenset({Surface.MOE, Surface.EXPERTS, Surface.MOE_ORACLE, Surface.WEIGHTS})
_ATTENTION = frozenset({Surface.ATTENTION, Surface.ATTENTION_BACKEND})
_PLATFORM = frozenset(
    {
        Surface.PLATFORM,
        Surface.ALLOWLIST,
        Surface.ATTENTION,
        Surface.IR_OP,
        Surface.QUANTIZATION,
        Surface.DTYPE,
        Surface.DEFAULTS,
        Surface.SWITCH,
        Surface.IMPORT_EFFECT,
        Surface.GUARD,
    }
)

_SERVES: Mapping[str, frozenset[Surface]] = {
    "vllm/platforms/*": _PLATFORM,
    "vllm/platforms/rocm.py": frozenset({Surface.UNQUANTIZED_GEMM, Surface.MOE}),
    "vllm/_aiter_ops.py": frozenset(
        {
            Surface.AITER_GATE,
            Surface.TUNED_GATE,
            Surface.SWITCH,
            Surface.IMPORT_EFFECT,
            Surface.LINEAR,
            Surface.MOE,
            Surface.ATTENTION,
            Surface.IR_OP,
            Surface.UNQUANTIZED_GEMM,
        }
    ),
    "vllm/envs.py": frozenset({Surface.AITER_GATE, Surface.SWITCH, Surface.DEFAULTS, Surface.IMPORT_EFFECT}),
    "vllm/env_override.py": frozenset({Surface.IMPORT_EFFECT}),
    "vllm/__init__.py": frozenset({Surface.IMPORT_EFFECT}),
    "vllm/_custom_ops.py": frozenset({Surface.IMPORT_EFFECT, Surface.UNQUANTIZED_GEMM}),
    "vllm/config/*": frozenset({Surface.DEFAULTS, Surface.IR_OP, Surface.QUANTIZATION}),
    "vllm/engine/arg_utils.py": frozenset({Surface.DEFAULTS, Surface.SWITCH}),
    "vllm/ir/*": frozenset({Surface.IR_OP}),
    "vllm/kernels/*": frozenset({Surface.IR_OP}),
    "vllm/utils/torch_utils.py": frozenset({Surface.DTYPE}),
    "vllm/distributed/*": frozenset({Surface.DTYPE, Surface.DEFAULTS, Surface.SWITCH}),
    "vllm/model_executor/parameter.py": frozenset({Surface.WEIGHTS}),
    "vllm/model_executor/utils.py": frozenset({Surface.WEIGHTS}),
    "vllm/model_executor/kernels/linear/*": _LINEAR,
    f"{_LAYERS}/quantization/kernels/*": _LINEAR,  # vllm<0.20: the linear kernels' home
    f"{_LAYERS}/quantization/*": _LINEAR | _MOE | {Surface.QUANTIZATION},
    f"{_LAYERS}/quantization/utils/fp8_utils.py": frozenset({Surface.GUARD, Surface.DTYPE}),
    f"{_LAYERS}/fused_moe/*": _MOE,
    f"{_LAYERS}/linear.py": frozenset({Surface.WEIGHTS}),
    f"{_LAYERS}/utils.py": frozenset({Surface.UNQUANTIZED_GEMM}),
    f"{_LAYERS}/layernorm.py": frozenset({Surface.IR_OP}),
    "vllm/model_executor/*/batch_invariant*.py": frozenset({Surface.LINEAR, Surface.ATTENTION, Surface.SWITCH}),
    f"{_LAYERS}/attention/*": _ATTENTION,
    "vllm/attention/*": _ATTENTION,  # vllm<0.15: its home
    "vllm/v1/attention/*": _ATTENTION,
}
"""Pattern of paths, in which ``*`` crosses folders -> the surfaces served. A path serves what all its patterns say."""


def surfaces_of(path: str) -> frozenset[Surface]:
    """The surfaces that a file serves; empty where no surface looks at it.

    Args:
        path: below the subject's tree, with forward slashes: ``vllm/platforms/rocm.py``.
    """
    return frozenset().union(*(found for pattern, found in _SERVES.items() if fnmatchcase(path, pattern)))
