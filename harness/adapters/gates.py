"""AITER gates: the predicates of ``rocm_aiter_ops`` that switch AITER's kernels on, and its tuned-shape gates.

In: the name of a gate, and for a tuned gate the weight [N, K] of one rank. Out: ``"True"`` or ``"False"``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import CodeType
from typing import Any

from harness.adapters.decision import Decision, find, raised, unsupported
from harness.adapters.watch import Returned, accepted_arguments, code_of
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence

_HELPERS = ("_ck_gemm_shape_is_tuned", "_triton_gemm_config_is_tuned", "_load_gemm_tuned_configs")
"""Module-level functions of ``vllm/_aiter_ops.py`` that cache tuned-table answers."""

GATES_THAT_READ: Mapping[str, str] = {
    "is_blockscale_bpreshuffle_tuned": "a8w8_blockscale_bpreshuffle_tuned_gemm",
    "is_shuffled_per_token_w8a8_gemm_tuned": "a8w8_bpreshuffle_tuned_gemm",
    "is_per_token_w8a8_gemm_tuned": "a8w8_tuned_gemm",
}
"""Gate -> base name of the table behind it. vllm<0.31: the gates read the files by themselves."""


def decide_gate(cell: Cell) -> Decision:
    """Ask one gate, with the cell's shape where the gate wants one."""
    operations = _operations()
    if operations is None or not hasattr(operations, cell.kernel.name):
        return unsupported(f"gate rocm_aiter_ops.{cell.kernel.name}")
    gate = getattr(operations, cell.kernel.name)
    arguments: dict[str, Any] = {}
    if cell.layer is not None:
        n, k = cell.layer.n, cell.layer.k
        every = {"n": n, "k": k, "N": n, "K": k, "k_bytes": k // 2, "q_dtype_w": _fp8_dtype()}
        arguments = accepted_arguments(gate, every)
    try:
        answer = gate(**arguments)
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    words = ", ".join(f"{name}={value}" for name, value in arguments.items())
    asked = Evidence(question=f"{cell.kernel.name}({words})", answer=str(answer))
    return Decision(Ended.ANSWERED, str(bool(answer)), f"rocm_aiter_ops.{cell.kernel.name}", evidence=(asked,))


def subject_reads_tables() -> bool:
    """Whether this release reads AITER's tuned tables by itself instead of asking AITER."""
    if _operations() is None:
        return False
    import vllm._aiter_ops as module

    return hasattr(module, "_load_gemm_tuned_configs")  # vllm<0.31: reads them


def forget_gate_answers() -> None:
    """Clear every cache of a gate, so that the next question reaches the tables again."""
    operations = _operations()
    if operations is None:
        return
    import vllm._aiter_ops as module

    for owner, names in ((operations, _gate_names()), (module, _HELPERS)):
        for name in names:
            clear = getattr(getattr(owner, name, None), "cache_clear", None)
            if clear is not None:
                clear()


@functools.cache
def gate_codes() -> Mapping[CodeType, str]:
    """Code objects of all gates, for a ``Watch``."""
    operations = _operations()
    if operations is None:
        return {}
    codes = ((code_of(getattr(operations, name)), name) for name in _gate_names())
    return {code: name for code, name in codes if code is not None and code.co_name == name}


def gate_evidence(returned: Returned) -> Evidence:
    """One gate's answer as evidence."""
    shown = {
        name: value for name, value in returned.variables.items() if isinstance(value, int | str) and name != "cls"
    }
    names = [name for name in ("n", "k", "N", "K", "k_bytes") if name in shown]
    words = ", ".join(f"{name}={shown[name]}" for name in names)
    return Evidence(question=f"rocm_aiter_ops.{returned.name}({words})", answer=str(returned.value))


@functools.cache
def _gate_names() -> tuple[str, ...]:
    operations = _operations()
    return tuple(name for name in dir(operations) if name.startswith(("is_", "are_"))) if operations is not None else ()


def _operations() -> Any:
    return find("vllm._aiter_ops", "rocm_aiter_ops")


def _fp8_dtype() -> Any:
    from vllm.platforms import current_platform

    return current_platform.fp8_dtype()
