from __future__ import annotations

import importlib
import importlib.util
import operator
import platform
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

from harness.targets.drivers import (
    CUDA_VERSION,
    HIP_VERSION,
    Lasting,
    NvmlFinder,
    gcn_arch_name,
    install_drivers,
    stand_in_module,
)
from harness.targets.facts import TARGETS

MI300X, RX7900, H100 = TARGETS["gfx942/MI300X"], TARGETS["gfx1100/RX7900XTX"], TARGETS["sm90/H100"]


def test_torch_says_which_stack_it_was_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, versions in {
        "gfx942/MI300X": (HIP_VERSION, None),
        "sm90/H100": (None, CUDA_VERSION),
        "cpu": (None, None),
    }.items():
        with monkeypatch.context() as patch:
            install_drivers(TARGETS[name], patch)
            assert (torch.version.hip, torch.version.cuda) == versions


def test_amdsmi_reports_the_facts_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    install_drivers(MI300X, monkeypatch)
    import amdsmi

    (handle,) = amdsmi.amdsmi_get_processor_handles()
    asic = amdsmi.amdsmi_get_gpu_asic_info(handle)
    assert (asic["market_name"], asic["device_id"]) == ("AMD Instinct MI300X", "0x74a1")
    assert (asic["num_compute_units"], asic["target_graphics_version"]) == (304, "gfx942")
    assert amdsmi.amdsmi_get_gpu_memory_total(handle, amdsmi.AmdSmiMemoryType.VRAM) == 192 << 30


def test_an_asic_without_a_known_device_id_says_so_as_amdsmi_does(monkeypatch: pytest.MonkeyPatch) -> None:
    install_drivers(TARGETS["gfx1250"], monkeypatch)
    import amdsmi

    assert amdsmi.amdsmi_get_gpu_asic_info(None)["device_id"] == "N/A"


def test_device_properties_are_those_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    install_drivers(RX7900, monkeypatch)
    properties = torch.cuda.get_device_properties(0)
    assert (properties.gcnArchName, properties.warp_size) == ("gfx1100", 32)
    assert properties.multi_processor_count == 48, "RDNA counts work-group processors, two compute units each"
    assert torch.cuda.get_device_capability() == (11, 0)
    assert (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device()) == (True, 1, 0)


def test_a_cuda_device_has_no_gcn_arch_name(monkeypatch: pytest.MonkeyPatch) -> None:
    install_drivers(H100, monkeypatch)
    assert torch.cuda.get_device_properties(0).gcnArchName == ""
    assert torch.cuda.get_device_capability() == (9, 0)


def test_no_driver_creates_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    install_drivers(MI300X, monkeypatch)
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        torch.zeros(1, device="cuda")


@pytest.mark.parametrize(
    ("ask", "tells"),
    [
        ("torch.cuda.get_device_properties", True),
        ("torch.cuda.get_device_capability", True),
        ("torch.cuda.get_device_name", True),
        ("torch.cuda.current_device", True),
        ("torch.cuda.current_stream", True),
        ("triton.runtime.driver.active.get_current_target", True),
        ("torch.cuda.device_count", False),
        ("torch.cuda.is_available", False),
    ],
)
def test_what_would_create_a_context_on_a_real_device_is_told(
    monkeypatch: pytest.MonkeyPatch, ask: str, tells: bool
) -> None:
    calls: list[str] = []
    install_drivers(MI300X, monkeypatch, calls.append)
    root, _, path = ask.partition(".")
    operator.attrgetter(path)({"torch": torch, "triton": triton}[root])()
    assert calls == ([ask] if tells else [])


def test_a_query_of_torch_that_no_driver_answers_is_told_and_fails_as_without_a_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    install_drivers(MI300X, monkeypatch, calls.append)
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        torch.cuda._lazy_init()
    assert calls == ["torch.cuda._lazy_init"]


def test_the_declared_cpu_is_the_same_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    install_drivers(TARGETS["cpu"], monkeypatch)
    assert torch.cpu._is_avx512_bf16_supported()
    assert torch.get_num_threads() == 1
    assert platform.machine() == "x86_64"
    assert not torch.cuda.is_available()


def test_xpu_answers_and_cuda_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    install_drivers(TARGETS["xpu"], monkeypatch)
    assert torch.xpu.is_available()
    assert torch.xpu.get_device_properties(0).max_compute_units == 160
    assert not torch.cuda.is_available()


@pytest.mark.parametrize(
    ("name", "backend", "arch", "warp_size"),
    [
        ("gfx942/MI300X", "hip", "gfx942", 64),
        ("gfx1100/RX7900XTX", "hip", "gfx1100", 32),
        ("sm90/H100", "cuda", 90, 32),
    ],
)
def test_triton_knows_its_target(
    monkeypatch: pytest.MonkeyPatch, name: str, backend: str, arch: str | int, warp_size: int
) -> None:
    install_drivers(TARGETS[name], monkeypatch)
    driver = triton.runtime.driver.active
    found = driver.get_current_target()
    assert (found.backend, found.arch, found.warp_size) == (backend, arch, warp_size)
    assert driver.utils.get_device_properties(0)["max_shared_mem"] == TARGETS[name].lds_bytes


def test_a_patch_that_can_undo_takes_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = (torch.version.hip, torch.cuda.is_available, torch.cuda.get_device_properties, "amdsmi" in sys.modules)
    with monkeypatch.context() as patch:
        install_drivers(MI300X, patch)
        assert torch.version.hip == HIP_VERSION
    assert (
        torch.version.hip,
        torch.cuda.is_available,
        torch.cuda.get_device_properties,
        "amdsmi" in sys.modules,
    ) == before


def test_a_lasting_patch_sets_attributes_and_items() -> None:
    class Owner:
        name = 1

    table: dict[str, object] = {}
    Lasting().setattr(Owner, "name", 2)
    Lasting().setitem(table, "key", 3)
    assert (Owner.name, table) == (2, {"key": 3})


def test_cdna_names_carry_their_features_and_rdna_names_none() -> None:
    assert gcn_arch_name(MI300X) == "gfx942:sramecc+:xnack-"
    assert gcn_arch_name(RX7900) == "gfx1100"
    assert gcn_arch_name(TARGETS["gfx1250"]) == "gfx1250"


def test_a_stand_in_module_can_be_imported_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_module("made_up_module", monkeypatch, answer=42)
    assert importlib.import_module("made_up_module").answer == 42
    assert importlib.util.find_spec("made_up_module") is not None


def test_vllm_s_own_nvml_is_loaded_from_its_file_and_answers_for_the_target(tmp_path: Path) -> None:
    folder = tmp_path / "vllm" / "third_party"
    folder.mkdir(parents=True)
    (folder / "pynvml.py").write_text("NVML_ERROR = 7\ndef nvmlInit(): raise RuntimeError('no driver')\n")
    finder = NvmlFinder(H100, tmp_path)
    spec = finder.find_spec("vllm.third_party.pynvml")
    assert spec is not None
    assert finder.find_spec("vllm.third_party.other") is None
    module: Any = importlib.util.module_from_spec(spec)
    finder.exec_module(module)
    assert module.NVML_ERROR == 7
    assert module.nvmlInit() is None
    assert module.nvmlDeviceGetCudaComputeCapability(module.nvmlDeviceGetHandleByIndex(0)) == (9, 0)
    assert module.nvmlDeviceGetMemoryInfo(0).total == 80 << 30
