"""The one table of device facts. In: nothing. Out: ``TARGETS`` by full name. It must not import anything of vLLM.

Every value is one that a real device reported or a vendor document states; the source stands beside each row.
``cu_count`` is what rocminfo and AITER's tuned tables (column ``cu_num``) count.
"""

from __future__ import annotations

from harness.model.target import Fact, Platform, Target

_AMD = "https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html"
_PCI = "device id: https://pci-ids.ucw.cz/read/PC/1002"
_COMGR = "LDS: ROCm llvm-project amd/comgr/src/comgr-isa-metadata.def"
_HIP = "capability: hipDeviceProp_t major and minor are the gfx number's"

_KIB = 1024


def _rocm(
    gfx: str,
    product: str,
    family: str,
    market_name: str,
    device_id: str,
    *,
    cu_count: int,
    vram_gib: int,
    capability: tuple[int, int],
    lds_kib: int = 64,
    source: str = _AMD,
    default: bool = True,
) -> Target:
    return Target(
        gfx=gfx,
        platform=Platform.ROCM,
        product=product,
        family=family,
        market_name=market_name,
        device_id=device_id,
        cu_count=cu_count,
        vram_gib=vram_gib,
        capability=capability,
        wavefront=64 if gfx.startswith("gfx9") else 32,
        lds_bytes=lds_kib * _KIB,
        fact=Fact(f"{source}; {_PCI}; {_COMGR}; {_HIP}"),
        default=default,
    )


def _cuda(gfx: str, product: str, family: str, market_name: str, *, sms: int, vram_gib: int, lds_kib: int) -> Target:
    return Target(
        gfx=gfx,
        platform=Platform.CUDA,
        product=product,
        family=family,
        market_name=market_name,
        device_id="",
        cu_count=sms,
        vram_gib=vram_gib,
        capability=divmod(int(gfx.removeprefix("sm")), 10),
        wavefront=32,
        lds_bytes=lds_kib * _KIB,
        fact=Fact(
            "NVIDIA data sheet of the product; shared memory of a block: CUDA C++ Programming Guide, "
            "technical specifications per compute capability"
        ),
        default=True,
    )


_ROWS = (
    _rocm("gfx90a", "MI210", "CDNA2", "AMD Instinct MI210", "0x740f", cu_count=104, vram_gib=64, capability=(9, 0)),
    _rocm("gfx942", "MI300X", "CDNA3", "AMD Instinct MI300X", "0x74a1", cu_count=304, vram_gib=192, capability=(9, 4)),
    _rocm(
        "gfx942",
        "MI308X",
        "CDNA3",
        "AMD Instinct MI308X",
        "0x74a2",
        cu_count=80,
        vram_gib=192,
        capability=(9, 4),
        source=f"{_AMD}; cu_count: the gfx942 rows with cu_num 80 of AITER's tuned tables",
        default=False,
    ),
    _rocm(
        "gfx950",
        "MI350X",
        "CDNA4",
        "AMD Instinct MI350X",
        "0x75a0",
        cu_count=256,
        vram_gib=288,
        capability=(9, 5),
        lds_kib=160,
    ),
    _rocm(
        "gfx1100",
        "RX7900XTX",
        "RDNA3",
        "AMD Radeon RX 7900 XTX",
        "0x744c",
        cu_count=96,
        vram_gib=24,
        capability=(11, 0),
        source=f"{_AMD}; rocminfo of a device: https://github.com/ollama/ollama/issues/3158",
    ),
    _rocm(
        "gfx1151",
        "8060S",
        "RDNA3.5",
        "AMD Radeon 8060S",
        "0x1586",
        cu_count=40,
        vram_gib=96,
        capability=(11, 5),
        source=f"{_AMD}; vram_gib: the largest share of 128 GiB that the firmware lets the GPU have",
    ),
    _rocm(
        "gfx1200",
        "RX9060XT",
        "RDNA4",
        "AMD Radeon RX 9060 XT",
        "0x7590",
        cu_count=32,
        vram_gib=16,
        capability=(12, 0),
    ),
    _rocm(
        "gfx1201",
        "RX9070XT",
        "RDNA4",
        "AMD Radeon RX 9070 XT",
        "0x7550",
        cu_count=64,
        vram_gib=16,
        capability=(12, 0),
        source=f"{_AMD}; rocminfo of a device: https://github.com/ROCm/rocm-systems/issues/5953",
    ),
    _rocm(
        "gfx1250",
        "gfx1250",
        "CDNA5",
        "AMD Instinct gfx1250",
        "",
        cu_count=256,
        vram_gib=432,
        capability=(12, 5),
        lds_kib=320,
        source="product name and device id are not published; cu_count: the gfx1250 rows with cu_num 256 of AITER's "
        "tuned tables; vram_gib: AMD's announcement of the Instinct MI450 series",
    ),
    _cuda("sm80", "A100", "Ampere", "NVIDIA A100-SXM4-80GB", sms=108, vram_gib=80, lds_kib=163),
    _cuda("sm89", "L40S", "Ada", "NVIDIA L40S", sms=142, vram_gib=48, lds_kib=99),
    _cuda("sm90", "H100", "Hopper", "NVIDIA H100 80GB HBM3", sms=132, vram_gib=80, lds_kib=227),
    _cuda("sm100", "B200", "Blackwell", "NVIDIA B200", sms=148, vram_gib=180, lds_kib=227),
    Target(
        gfx="xpu",
        platform=Platform.XPU,
        product="xpu",
        family="Xe2",
        market_name="Intel(R) Arc(TM) Pro B60 Graphics",
        device_id="",
        cu_count=160,
        vram_gib=24,
        capability=None,
        wavefront=16,
        lds_bytes=128 * _KIB,
        fact=Fact("Intel Arc Pro B60 product specification: 20 Xe cores of 8 vector engines, 24 GB"),
        default=True,
    ),
    Target(
        gfx="cpu",
        platform=Platform.CPU,
        product="cpu",
        family="CPU",
        market_name="cpu",
        device_id="",
        cu_count=1,
        vram_gib=0,
        capability=None,
        wavefront=0,
        lds_bytes=0,
        fact=Fact("vLLM's VLLM_TARGET_DEVICE=cpu build; nothing of the machine is read"),
        default=True,
    ),
    Target(
        gfx="none",
        platform=Platform.NONE,
        product="none",
        family="none",
        market_name="",
        device_id="",
        cu_count=0,
        vram_gib=0,
        capability=None,
        wavefront=0,
        lds_bytes=0,
        fact=Fact("no driver answers, so vLLM falls back to UnspecifiedPlatform: vllm/platforms/__init__.py"),
        default=True,
    ),
)

TARGETS: dict[str, Target] = {row.name: row for row in _ROWS}
"""All targets by full name (``gfx942/MI300X``, ``sm90/H100``, ``cpu``)."""
