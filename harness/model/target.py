"""What a target is: a gfx target or its like on another platform, with the device facts that routing can ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Platform(StrEnum):
    """The vLLM platform a target belongs to. ``none`` is a machine on which vLLM finds no device at all."""

    ROCM = "rocm"
    CUDA = "cuda"
    XPU = "xpu"
    CPU = "cpu"
    NONE = "none"


class Attachment(StrEnum):
    """Whether a target is a stand-in for logic only, or a real device."""

    SIMULATED = "simulated"
    ATTACHED = "attached"


@dataclass(frozen=True)
class Fact:
    """Where the values of one row of the table of device facts come from."""

    source: str
    """URL, document, or the recorded answer of a real device."""
    confirmed: str | None = None
    """The recorded hardware run that confirmed the row, if one did."""

    @property
    def words(self) -> str:
        """The source, and the hardware that confirmed it."""
        return self.source + (f"; confirmed on hardware: {self.confirmed}" if self.confirmed else "")


@dataclass(frozen=True)
class Target:
    """One device as routing sees it. All facts are of one device; ``devices`` is how many are visible."""

    gfx: str
    """The canonical gfx target (``gfx942``), or ``sm90``, ``xpu``, ``cpu``, ``none`` on the other platforms."""
    platform: Platform
    product: str
    """Short product name without spaces (``MI300X``), which tells apart two products of one gfx target."""
    family: str
    """CDNA3, RDNA4, Hopper, ...: for grouping only, never for a decision."""
    market_name: str
    """The name the driver reports (``AMD Instinct MI300X``)."""
    device_id: str
    """PCI device id as amdsmi reports it (``0x74a1``); empty where there is none."""
    cu_count: int
    """Compute units (ROCm), multiprocessors (CUDA), Xe cores (XPU), or hardware threads (CPU)."""
    vram_gib: int
    """Memory of the device in GiB."""
    capability: tuple[int, int] | None
    """(major, minor) as the runtime reports it; None where the platform has no such number."""
    wavefront: int
    """Threads of a wavefront (64 on CDNA, 32 on RDNA and CUDA; 0 where there is none)."""
    lds_bytes: int
    """Local data share of one workgroup, in bytes (0 where unknown or absent)."""
    fact: Fact
    default: bool = False
    """True for the product that the bare gfx target stands for in a command that must pick one."""

    @property
    def name(self) -> str:
        """The full name, ``gfx942/MI300X``: unique in the table of facts."""
        return self.gfx if self.gfx == self.product else f"{self.gfx}/{self.product}"

    @property
    def multiprocessors(self) -> int:
        """What ``multiProcessorCount`` reports: work-group processors (two CUs each) on RDNA, CUs elsewhere.

        Source: https://github.com/ROCm/hip/issues/3198 (RX 7900 XT: 42 reported, 84 CUs in rocminfo).
        """
        return self.cu_count // 2 if self.family.startswith("RDNA") else self.cu_count

    @property
    def mark(self) -> str:
        """The pytest mark that selects the target's cells: ``rocm_gfx942``, ``cuda_sm90``, ``cpu``."""
        return self.platform.value if self.gfx == self.platform.value else f"{self.platform.value}_{self.gfx}"
