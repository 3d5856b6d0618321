"""Invariants about how vLLM selects: I3, I5, I6, I12, I13. In: a cell and its observation. Out: findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.adapters.gates import GATES_THAT_READ
from harness.model.cell import FROM_COMMANDS, Cell, Surface
from harness.model.record import Ended, Finding, Observation
from harness.model.target import Platform
from harness.probes.invariants.rule import CHOOSES, answers, explicit, first_choice, is_decided, variables
from harness.targets.isa import AITER_COMPILED_FOR

_ANSWERED_BY_VLLM = frozenset(Surface) - {*FROM_COMMANDS, Surface.IMPORT_EFFECT, Surface.DTYPE}
"""Surfaces whose question must end in an answer or in a refusal of vLLM's own."""

_GIVES_REASONS = frozenset({Surface.LINEAR, Surface.MOE, Surface.ATTENTION, Surface.ALLOWLIST})
"""Surfaces whose candidates are refused in words."""

_AITER = re.compile(r"aiter", re.IGNORECASE)

_SWITCHES: Mapping[str, tuple[Surface, re.Pattern[str]]] = {
    "VLLM_ROCM_USE_AITER_LINEAR": (Surface.LINEAR, _AITER),
    "VLLM_ROCM_USE_AITER_MOE": (Surface.MOE, _AITER),
    "VLLM_ROCM_USE_AITER_MHA": (Surface.ATTENTION, re.compile(r"AiterFlashAttention\w*|ROCM_AITER_FA")),
    "VLLM_ROCM_USE_AITER_MLA": (Surface.ATTENTION, re.compile(r"Aiter\w*MLA\w*Backend|ROCM_AITER_MLA\w*")),
    "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION": (Surface.ATTENTION, re.compile(r"RocmAiterUnified\w*")),
    "VLLM_ROCM_USE_AITER_RMSNORM": (Surface.IR_OP, _AITER),
    "VLLM_ROCM_USE_SKINNY_GEMM": (Surface.UNQUANTIZED_GEMM, re.compile(r"wvSplitK|LLMM1")),
    "VLLM_ROCM_USE_AITER_TRITON_GEMM": (Surface.UNQUANTIZED_GEMM, re.compile(r"gemm_a16w16")),
}
"""Variable -> the kernels it must keep away when it is 0. Source: vllm/envs.py, the comment beside each."""

_COMPILED: Mapping[Surface, re.Pattern[str]] = {
    Surface.ATTENTION: re.compile(r"AiterFlashAtt\w*|ROCM_AITER_FA|AiterMLABackend|ROCMAiterMLASparseBackend"),
    Surface.MOE: re.compile(r"AITER(?!_TRITON)\w*(/\w+)?"),
    Surface.IR_OP: re.compile(r"aiter"),
}
"""Choices behind which AITER has Composable Kernel or assembly kernels and nothing else. Source: the imports from
``aiter`` of vllm/v1/attention/backends, fused_moe/experts/rocm_aiter_moe.py and vllm/kernels/aiter_ops.py."""

_SIXTEEN_BIT = re.compile(r"_BF16\b|W4A16|UNFUSED|WNA16", re.IGNORECASE)
"""Backends that multiply 16-bit activations, by the names vLLM gives them."""


def clear_refusal(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I3: every question ends in an answer or in one clear refusal, and every candidate passed over has a reason."""
    surface = cell.kernel.surface
    if seen.ended is Ended.RAISED and surface in _ANSWERED_BY_VLLM and seen.symbol and not seen.findings:
        message = f"{cell.kernel.name} ends in {seen.detail}"
        yield Finding(rule="I3", symbol=seen.symbol, message=message)
    if seen.ended is Ended.REFUSED and not seen.detail.strip():
        yield Finding(rule="I3", symbol=seen.symbol or cell.kernel.name, message="refused without a word")
    if surface not in _GIVES_REASONS or not is_decided(seen):
        return
    for item in seen.candidates:
        if item.accepted is False and not item.reason.strip():
            yield Finding(rule="I3", symbol=item.name, message=f"{item.name} is passed over without a reason")
        if item.accepted and item.reason.strip():
            yield Finding(rule="I3", symbol=item.name, message=f"{item.name} is taken with a refusal: {item.reason}")


def gates_obey(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I5: a variable that is off keeps its kernels away, and none that is on brings them where they are not built."""
    if cell.target.platform is not Platform.ROCM or seen.ended is not Ended.ANSWERED:
        return
    chosen = first_choice(cell, seen)
    for message in (_although_off(cell, chosen), _where_not_built(cell, chosen)):
        if message:
            yield Finding(rule="I5", symbol=seen.symbol or chosen, message=message)


def _although_off(cell: Cell, chosen: str) -> str:
    """What is wrong with a choice that nobody asked for; one that the user named needs no variable."""
    if cell.kernel.surface not in CHOOSES or explicit(cell):
        return ""
    given = variables(cell)
    off = [
        name
        for name, (surface, kernels) in _SWITCHES.items()
        if _is_off(given, name) and surface is cell.kernel.surface and kernels.search(chosen)
    ]
    if given.get("VLLM_ROCM_USE_AITER", "0") in ("0", "") and _AITER.search(chosen):
        off.append("VLLM_ROCM_USE_AITER")
    return f"{chosen} is chosen on {cell.target.name} although {' and '.join(off)} is off" if off else ""


def _where_not_built(cell: Cell, chosen: str) -> str:
    """What is wrong with a choice of AITER's compiled kernels, whoever made it."""
    compiled = _COMPILED.get(cell.kernel.surface)
    if compiled is None or cell.target.gfx in AITER_COMPILED_FOR or not compiled.fullmatch(chosen):
        return ""
    built = ", ".join(sorted(AITER_COMPILED_FOR))
    return f"{chosen} is chosen on {cell.target.name}, and AITER builds its kernels for {built} alone"


def _is_off(given: Mapping[str, str], name: str) -> bool:
    return given.get(name) in ("0", "")


def tuned_for_this_device(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I6: a tuned gate says yes only for a row of this gfx target and this count of compute units."""
    for item in seen.evidence:
        found = re.fullmatch(r"gfx=(\S+), cu_num=(\S+)", item.answer)
        if found is None or seen.ended is not Ended.ANSWERED:
            continue
        gfx, units = found.groups()
        if gfx not in ("any", cell.target.gfx) or units not in ("any", str(cell.target.cu_count)):
            here = f"gfx={cell.target.gfx}, cu_num={cell.target.cu_count}"
            message = f"a gate takes a row of {gfx} with {units} compute units for one of {here} ({item.source})"
            gate = next((gate for gate, base in GATES_THAT_READ.items() if item.question.startswith(f"{base}: ")), "")
            symbol = f"rocm_aiter_ops.{gate}" if gate else seen.symbol or first_choice(cell, seen)
            yield Finding(rule="I6", symbol=symbol, message=message)


def exact_request(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I12: the chosen kernel's own predicates accept the request, and it is of the scheme that was asked for."""
    if cell.kernel.surface not in CHOOSES or seen.ended is not Ended.ANSWERED:
        return
    if any("falling back" in words.lower() for words in answers(seen, "vLLM warns")):
        return  # it is said aloud that another scheme serves
    chosen = first_choice(cell, seen)
    own = chosen.rpartition("/")[2]
    for item in seen.evidence:
        if item.question.partition("(")[0] == f"{own}.is_supported_config" and item.answer.startswith("False"):
            message = f"{chosen} is chosen and {item.question} says {item.answer}"
            yield Finding(rule="I12", symbol=own, message=message)
    wants_quantized = cell.kernel.scheme.get("activation") and cell.target.platform is Platform.ROCM
    if wants_quantized and _SIXTEEN_BIT.search(chosen):
        message = f"{chosen} multiplies 16-bit activations, and {cell.kernel.scheme['activation']} were asked for"
        yield Finding(rule="I12", symbol=seen.symbol or chosen, message=message)


def total_dtype_map(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I13: maps of dtypes know every dtype that the platform uses."""
    if cell.kernel.surface is Surface.DTYPE and seen.ended in (Ended.RAISED, Ended.REFUSED):
        message = f"{cell.kernel.name} on {cell.target.name}: {seen.detail}"
        yield Finding(rule="I13", symbol=seen.symbol or cell.kernel.name, message=message)
