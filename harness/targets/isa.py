"""Matrix instructions of every target, and where AITER is built: the one home of what an ISA has. Tables alone.

It must not say which kernel needs what. A compiled code object becomes the witness of these rows in the compile tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Instruction(StrEnum):
    """A kind of matrix instruction, by the type of its operands."""

    FP8 = "FP8"
    """8-bit floats, FNUZ or OCP as the target has them."""
    MX = "MX"
    """Block-scaled FP4, FP6 and FP8 (OCP microscaling)."""
    INT8 = "INT8"
    BF16 = "BF16"
    FP16 = "FP16"


@dataclass(frozen=True)
class Isa:
    """What one gfx target or SM can multiply."""

    has: frozenset[Instruction]
    source: str


_HALF = frozenset({Instruction.BF16, Instruction.FP16})
_INT = _HALF | {Instruction.INT8}
_FP8 = _INT | {Instruction.FP8}
_MX = _FP8 | {Instruction.MX}

_RDNA3 = "AMD RDNA3 ISA guide, section 7.9: V_WMMA_*_F16, _BF16, _IU8, _IU4 and none for FP8"
_RDNA4 = "AMD RDNA4 ISA guide, section 7.12: V_WMMA_F32_16X16X16_FP8_FP8 and its BF8 forms"
_PTX = "NVIDIA PTX ISA, mma: .e4m3 and .e5m2 need sm_89; .kind::mxf8f6f4 and .kind::mxf4 need sm_100"

MATRIX_INSTRUCTIONS: Mapping[str, Isa] = {
    "gfx90a": Isa(_INT, "AMD CDNA2 ISA guide, chapter 7: V_MFMA_*_F16, _BF16_1K, _I8 and none for FP8"),
    "gfx942": Isa(_FP8, "AMD CDNA3 ISA guide, chapter 7: V_MFMA_F32_*_FP8_FP8 (FNUZ)"),
    "gfx950": Isa(_MX, "AMD CDNA4 ISA guide, chapter 7: V_MFMA_SCALE_F32_*_F8F6F4 (OCP)"),
    "gfx1100": Isa(_INT, _RDNA3),
    "gfx1151": Isa(_INT, _RDNA3),
    "gfx1200": Isa(_FP8, _RDNA4),
    "gfx1201": Isa(_FP8, _RDNA4),
    "gfx1250": Isa(_MX, "LLVM AMDGPU back end, gfx1250: V_WMMA_SCALE_F32_16X16X128_F8F6F4"),
    "sm80": Isa(_INT, _PTX),
    "sm89": Isa(_FP8, _PTX),
    "sm90": Isa(_FP8, _PTX),
    "sm100": Isa(_MX, _PTX),
}
"""gfx target or SM -> its matrix instructions. XPU and CPU have no row: kernels there are not chosen by ISA."""

AITER_COMPILED_FOR = frozenset({"gfx942", "gfx950", "gfx1250"})
"""gfx targets that AITER's Composable Kernel and assembly kernels are built for; its Triton kernels go further.

Source: the folders of https://github.com/ROCm/aiter/tree/main/hsa; it crashes elsewhere (gfx1201: ROCm/aiter#4302).
"""
