"""Invariants about the device and the build: I1, I2, I7, I9. In: a cell and its observation. Out: findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Finding, Observation
from harness.probes.invariants.rule import first_choice
from harness.targets.isa import MATRIX_INSTRUCTIONS, Instruction


@dataclass(frozen=True)
class _Need:
    """Kernels that cannot run without a matrix instruction."""

    kernels: re.Pattern[str]
    instruction: Instruction
    source: str


_NEEDS = (
    _Need(
        re.compile(r"\w*TorchFP8ScaledMM\w*|ROCmFP8ScaledMMLinearKernel"),
        Instruction.FP8,
        "torch._scaled_mm and wvSplitKQ multiply FP8 operands as they are",
    ),
    _Need(
        re.compile(r"Aiter\w*Fp8\w*(ScaledMM\w*|Experts)"),
        Instruction.FP8,
        "AITER's FP8 kernels multiply FP8 operands as they are",
    ),
    _Need(
        re.compile(r"Cutlass(FP8|Fp8|Experts?Fp8|Batched\w*Fp8)\w*"),
        Instruction.FP8,
        "CUTLASS's FP8 kernels multiply FP8 operands as they are",
    ),
    _Need(
        re.compile(r"AiterMxfp4LinearKernel|RocmDotScaled\w*|AiterW4A4\w*|AiterMxfp8\w*|Mxfp8Native\w*"),
        Instruction.MX,
        "tl.dot_scaled and AITER's a4w4 kernels multiply block-scaled operands as they are",
    ),
)
"""Which kernels lean on which instruction. Kernels that upcast (Triton's FP8 block kernel, emulations) are not here."""

_DTYPE = re.compile(r"(?:torch\.)?float8_e[45]m[23]fn(uz)?\b|(?:torch\.)?float8_e5m2(fnuz)?\b")


def matrix_instruction(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I1: no kernel that needs a matrix instruction is chosen where the ISA lacks it."""
    isa = MATRIX_INSTRUCTIONS.get(cell.target.gfx)
    if isa is None or seen.ended is not Ended.ANSWERED:
        return
    for kernel in _given(cell, seen):
        for need in _NEEDS:
            if need.kernels.fullmatch(kernel) and need.instruction not in isa.has:
                message = (
                    f"{kernel} is chosen on {cell.target.name}, which has no {need.instruction} matrix instruction "
                    f"({isa.source}); {need.source}"
                )
                yield Finding(rule="I1", symbol=seen.symbol or kernel, message=message)


def _given(cell: Cell, seen: Observation) -> Iterator[str]:
    """Names of the classes that the answer would put to work on the device."""
    match cell.kernel.surface:
        case Surface.LINEAR:
            yield from (seen.chosen or "").split(" > ")
        case Surface.MOE:
            yield first_choice(cell, seen).rpartition("/")[2]
        case Surface.ALLOWLIST:
            yield from (item.name for item in seen.candidates if item.accepted)
        case Surface.EXPERTS:
            if any(item.name == "device" and item.accepted for item in seen.candidates):
                yield cell.kernel.name


def fp8_format(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I2: where FP8 is stored or computed it is FNUZ on gfx94x and OCP elsewhere."""
    stores = cell.kernel.surface is Surface.WEIGHTS and cell.kernel.family == "processed"
    answers = cell.kernel.surface in (Surface.PLATFORM, Surface.DTYPE) and _DTYPE.fullmatch(seen.chosen or "")
    # A request about a named dtype (an NCCL table has both) is about that dtype, not about the platform's own.
    if not (stores or answers) or "dtype" in cell.kernel.scheme or cell.target.platform.value == "none":
        return
    fnuz = cell.target.gfx.startswith("gfx94")
    wrong = [
        m[0] for m in _DTYPE.finditer(seen.chosen or "") if m[0].endswith("fnuz") is not fnuz and "e5m2" not in m[0]
    ]
    if wrong:
        right = "FNUZ" if fnuz else "OCP"
        message = (
            f"{', '.join(dict.fromkeys(wrong))} on {cell.target.name}, whose FP8 is {right}: values read wrong by 2x"
        )
        yield Finding(rule="I2", symbol=seen.symbol or cell.kernel.name, message=message)


def layout_contract(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I7: a kernel that rewrites its weights is not reachable through a call that expects the plain layout."""
    chosen = first_choice(cell, seen).rpartition("/")[2]
    rewrites = next((i.answer for i in seen.evidence if i.question == f"{chosen} rewrites its weight"), "")
    called = next((i.answer for i in seen.evidence if i.question == f"{chosen} is called with the plain layout"), "")
    if seen.ended is Ended.ANSWERED and rewrites and called:
        message = f"{chosen} rewrites its weight ({rewrites}) and is still reached through {called}"
        yield Finding(rule="I7", symbol=chosen, message=message)


def declared_operators(cell: Cell, seen: Observation) -> Iterator[Finding]:
    """I9: the chosen kernel's operators exist in the declared build."""
    if seen.ended is not Ended.ANSWERED:
        return
    missing = [item.question.removeprefix("operator ") for item in seen.evidence if item.answer == "missing"]
    if missing:
        chosen = first_choice(cell, seen)
        message = f"{chosen} is chosen and the build for {cell.target.name} does not have {', '.join(missing)}"
        yield Finding(rule="I9", symbol=chosen, message=message)
