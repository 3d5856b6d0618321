from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from harness.adapters import device_tensors
from harness.adapters.device_tensors import LINEAR, Device

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]


def _stand(stand_modules: Stand, key: str, gpu: bool) -> None:
    platform = types.SimpleNamespace(dispatch_key=key, is_cuda_alike=lambda: gpu)
    stand_modules({"vllm.platforms": {"current_platform": platform}})


@pytest.fixture
def device(stand_modules: Stand) -> Iterator[Device]:
    device_tensors._kind.cache_clear()
    _stand(stand_modules, "CUDA", True)
    yield Device()
    device_tensors._kind.cache_clear()


@pytest.fixture
def registered() -> Iterator[None]:
    library: Any = torch.library.Library("vllm", "FRAGMENT")
    library.define("gfxloop_gemm(Tensor x, Tensor w) -> Tensor")
    library.impl("gfxloop_gemm", torch.nn.functional.linear, "CUDA")
    build: Any = torch.library.Library("_gfxloop_gemm_C", "FRAGMENT")
    build.define("skinny(Tensor x) -> Tensor")
    build.impl("skinny", lambda x: x.new_empty(7), "CompositeExplicitAutograd")
    yield
    library._destroy()
    build._destroy()


def test_a_tensor_is_of_the_device_and_has_no_memory(device: Device) -> None:
    x = device.tensor(3, 1 << 40, dtype="float16")
    assert (x.is_cuda, x.is_meta, x.dtype, tuple(x.shape)) == (True, False, torch.float16, (3, 1 << 40))


def test_on_a_platform_without_a_gpu_it_is_not_cuda(stand_modules: Stand) -> None:
    device_tensors._kind.cache_clear()
    _stand(stand_modules, "CPU", False)
    x = Device().tensor(2)
    assert (x.is_cuda, x.is_meta) == (False, False)
    device_tensors._kind.cache_clear()


def test_views_keep_strides_and_are_no_operator(device: Device) -> None:
    x = device.tensor(4, 64)
    strided = torch.nn.functional.pad(x, (0, 64))[..., :-64]
    assert (strided.stride(), strided.is_contiguous(), strided.is_cuda) == ((128, 1), False, True)
    assert x.t().is_contiguous() is False
    assert x.reshape(-1).contiguous().is_cuda
    assert device.reached == []


@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_is_one_product(device: Device, bias: bool) -> None:
    out = torch.nn.functional.linear(device.tensor(2, 8), device.tensor(5, 8), device.tensor(5) if bias else None)
    assert (tuple(out.shape), out.is_cuda) == ((2, 5), True)
    assert device.reached == [LINEAR]


def test_an_operator_of_the_subject_runs_and_what_it_reaches_is_noted(device: Device, registered: None) -> None:
    out = torch.ops.vllm.gfxloop_gemm(device.tensor(2, 8), device.tensor(5, 8))
    assert tuple(out.shape) == (2, 5)
    assert device.reached == [LINEAR]


def test_a_custom_operator_is_noted_by_name(device: Device, registered: None) -> None:
    assert tuple(torch.ops._gfxloop_gemm_C.skinny(device.tensor(2)).shape) == (7,)
    assert device.reached == ["_gfxloop_gemm_C::skinny"]


def test_each_device_keeps_its_own_record(device: Device, registered: None) -> None:
    other = Device()
    torch.ops._gfxloop_gemm_C.skinny(other.tensor(2))
    assert (device.reached, other.reached) == ([], ["_gfxloop_gemm_C::skinny"])
