"""Driver-level stand-ins: what amdsmi, NVML, torch and Triton answer on a target. Facts come from the table only.

No context is ever created: what is not answered here still fails as on a build of torch without a device. Every
change goes through a ``Patch``, so that a test can take it back; a worker never does.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import platform
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from harness.model.target import Platform, Target

HIP_VERSION = "7.0"
"""``torch.version.hip`` of a ROCm target: the ROCm release that the vLLM 0.28 to 0.33 images carry (7.0)."""
CUDA_VERSION = "13.0"
"""``torch.version.cuda`` of a CUDA target: vLLM 0.28 to 0.33 pin the cu13 builds (requirements/cuda.txt)."""


class Patch(Protocol):
    """How an attribute or a module is replaced. ``pytest.MonkeyPatch`` is one that can undo it."""

    def setattr(self, target: object, name: str, value: object, raising: bool = ...) -> None:
        """Set an attribute."""

    def setitem(self, dic: Any, name: str, value: object) -> None:
        """Set an item of a mapping."""


class Lasting:
    """A ``Patch`` for good."""

    def setattr(self, target: object, name: str, value: object, raising: bool = True) -> None:
        """Set an attribute."""
        setattr(target, name, value)

    def setitem(self, dic: Any, name: str, value: object) -> None:
        """Set an item of a mapping."""
        dic[name] = value


Note = Callable[[str], None]
"""Told of each call that would create a context on a real device."""


def install_drivers(target: Target, patch: Patch, initialises: Note = lambda _call: None) -> None:
    """Make every driver query answer as ``target`` does; ``initialises`` is told what a real device would not stand."""
    _torch_versions(target, patch)
    if target.platform in (Platform.ROCM, Platform.CUDA):
        _torch_cuda(target, patch, initialises)
        _triton_driver(target, patch, initialises)
    installers = {
        Platform.ROCM: (_amdsmi,),
        Platform.CUDA: (),
        Platform.XPU: (_torch_xpu,),
        Platform.CPU: (_torch_cpu,),
        Platform.NONE: (),
    }
    for install in installers[target.platform]:
        install(target, patch)


def gcn_arch_name(target: Target) -> str:
    """The raw device string that HIP reports: CDNA names carry their features, RDNA names none.

    Source: ``gcnArchName`` of an MI300X, https://github.com/ROCm/aiter (``gfx942:sramecc+:xnack-``).
    """
    return f"{target.gfx}:sramecc+:xnack-" if target.gfx.startswith("gfx9") else target.gfx


def stand_in_module(name: str, patch: Patch, **attributes: object) -> types.ModuleType:
    """An importable module with just these attributes."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(attributes)
    patch.setitem(sys.modules, name, module)
    return module


def _torch_versions(target: Target, patch: Patch) -> None:
    import torch

    patch.setattr(torch.version, "hip", HIP_VERSION if target.platform is Platform.ROCM else None)
    patch.setattr(torch.version, "cuda", CUDA_VERSION if target.platform is Platform.CUDA else None)


def _amdsmi(target: Target, patch: Patch) -> None:
    """The functions of amdsmi that vLLM calls. Keys and types as amdsmi 26 documents them."""

    class AmdSmiException(Exception):
        pass

    class AmdSmiMemoryType:
        VRAM = 0

    asic = {
        "market_name": target.market_name,
        "vendor_id": 0x1002,
        "device_id": target.device_id or "N/A",
        "num_compute_units": target.cu_count,
        "target_graphics_version": target.gfx,
    }
    handle = object()
    stand_in_module(
        "amdsmi",
        patch,
        AmdSmiException=AmdSmiException,
        AmdSmiMemoryType=AmdSmiMemoryType,
        amdsmi_init=lambda *_: None,
        amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: [handle],
        amdsmi_get_gpu_asic_info=lambda _handle: dict(asic),
        amdsmi_get_gpu_device_uuid=lambda _handle: "simulated",
        amdsmi_get_gpu_memory_total=lambda _handle, _kind: target.vram_gib << 30,
        amdsmi_topo_get_link_type=lambda _one, _other: {"hops": 1, "type": 2},
        amdsmi_topo_get_numa_node_number=lambda _handle: 0,
    )


def _torch_cuda(target: Target, patch: Patch, initialises: Note) -> None:
    """The queries that vLLM asks of torch.cuda.

    A real torch creates a context for all but ``is_available`` and ``device_count``, which ask the driver's library.
    Source: the calls of ``_lazy_init`` in ``torch/cuda/__init__.py`` of torch 2.9.
    """
    import torch

    assert target.capability is not None
    properties = types.SimpleNamespace(
        name=target.market_name,
        major=target.capability[0],
        minor=target.capability[1],
        gcnArchName=gcn_arch_name(target) if target.platform is Platform.ROCM else "",
        multi_processor_count=target.multiprocessors,
        total_memory=target.vram_gib << 30,
        warp_size=target.wavefront,
        shared_memory_per_block_optin=target.lds_bytes,
    )
    answers: dict[str, Any] = {
        "get_device_properties": properties,
        "get_device_capability": target.capability,
        "get_device_name": target.market_name,
        "current_device": 0,
        "current_stream": types.SimpleNamespace(cuda_stream=0),
    }
    for name, answer in answers.items():
        patch.setattr(torch.cuda, name, _initialising(f"torch.cuda.{name}", lambda *_, a=answer: a, initialises))
    lazily = torch.cuda._lazy_init  # every other function of torch.cuda that needs a context comes by here
    patch.setattr(torch.cuda, "_lazy_init", _initialising("torch.cuda._lazy_init", lazily, initialises))
    patch.setattr(torch.cuda, "is_available", lambda: True)
    patch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("empty_cache", "empty_host_cache"):  # torch's own answer while the allocator is not initialised
        patch.setattr(torch.accelerator, name, lambda: None, raising=False)


def _initialising(name: str, call: Callable[..., Any], initialises: Note) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        initialises(name)
        return call(*arguments, **options)

    return noted


def _torch_xpu(target: Target, patch: Patch) -> None:
    import torch

    properties = types.SimpleNamespace(
        name=target.market_name, max_compute_units=target.cu_count, total_memory=target.vram_gib << 30
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: target.market_name,
        "get_device_properties": lambda *_: properties,
    }
    for name, answer in answers.items():
        patch.setattr(torch.xpu, name, answer)


def _torch_cpu(target: Target, patch: Patch) -> None:
    """One declared CPU, so that nothing of this machine decides: x86-64 with AVX-512 BF16 and AMX.

    Source: the release build of vLLM's CPU wheel is for x86-64 with AVX-512 (requirements/cpu-build.txt, setup.py).
    """
    import torch

    for name in ("avx2", "avx512", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_fp16"):
        patch.setattr(torch.cpu, f"_is_{name}_supported", lambda: True, raising=False)
    patch.setattr(torch.cpu, "_init_amx", lambda: True, raising=False)
    patch.setattr(torch, "get_num_threads", lambda: target.cu_count)
    patch.setattr(platform, "machine", lambda: "x86_64")


def _triton_driver(target: Target, patch: Patch, initialises: Note) -> None:
    """An active Triton driver that knows its target and can launch nothing.

    A real one asks ``torch.cuda.current_device`` for every answer. Source: ``GPUDriver`` of triton/backends/driver.py.
    """
    try:
        import triton
        from triton.backends.compiler import GPUTarget
    except ImportError:
        return
    backend = "hip" if target.platform is Platform.ROCM else "cuda"
    capability = target.capability or (0, 0)
    arch = target.gfx if backend == "hip" else capability[0] * 10 + capability[1]
    limits = {
        "arch": arch,
        "warpSize": target.wavefront,
        "max_shared_mem": target.lds_bytes,
        "multiprocessor_count": target.multiprocessors,
    }

    class SimulatedDriver:
        utils = types.SimpleNamespace(get_device_properties=lambda _device: dict(limits))

        def get_current_target(self) -> object:
            initialises("triton.runtime.driver.active.get_current_target")
            return GPUTarget(backend, arch, target.wavefront)

        def get_current_device(self) -> int:
            initialises("triton.runtime.driver.active.get_current_device")
            return 0

        def get_current_stream(self, _device: int = 0) -> int:
            return 0

        def get_active_torch_device(self) -> object:
            import torch

            return torch.device("cuda", 0)

    patch.setattr(triton.runtime.driver, "_active", SimulatedDriver(), raising=False)


class NvmlFinder(importlib.machinery.SourceFileLoader):
    """Loads vLLM's own copy of NVML from its file and makes it answer as a target does: not at all without NVIDIA.

    Put on ``sys.meta_path``: some releases look for their platform while ``vllm`` itself is being imported.
    """

    def __init__(self, target: Target, tree: Path) -> None:
        super().__init__("vllm.third_party.pynvml", str(tree / "vllm" / "third_party" / "pynvml.py"))
        self._target = target

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """A spec for vLLM's NVML, None for every other module."""
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the real module, then replace the queries."""
        super().exec_module(module)
        target = self._target
        if target.platform is not Platform.CUDA:  # whatever GPU this machine has, the target has no NVIDIA driver

            def nvmlInit() -> None:
                raise vars(module)["NVMLError"](vars(module)["NVML_ERROR_LIBRARY_NOT_FOUND"])

            vars(module).update(nvmlInit=nvmlInit)
            return
        vars(module).update(
            nvmlInit=lambda *_: None,
            nvmlShutdown=lambda: None,
            nvmlDeviceGetCount=lambda: 1,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetCudaComputeCapability=lambda _handle: target.capability,
            nvmlDeviceGetName=lambda _handle: target.market_name,
            nvmlDeviceGetUUID=lambda _handle: "GPU-simulated",
            nvmlDeviceGetMemoryInfo=lambda _handle: types.SimpleNamespace(total=target.vram_gib << 30),
            nvmlDeviceGetNumaNodeId=lambda _handle: 0,
        )
