"""``cuda`` means the meta device while a block runs, and torch is itself again after it."""

from __future__ import annotations

import pytest

from harness.adapters.meta_device import on_meta_device

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("device", ["cuda", "cuda:3", torch.device("cuda", 0)])
def test_a_tensor_of_the_device_is_a_meta_tensor_that_says_it_is_on_a_gpu(device: object) -> None:
    with on_meta_device():
        for tensor in (torch.empty(2, device=device), torch.ones(2).to(device), torch.ones(2).cuda()):
            assert (tensor.device.type, tensor.is_cuda, tuple(tensor.shape)) == ("meta", True, (2,))


def test_a_tensor_of_the_cpu_stays_real() -> None:
    with on_meta_device():
        tensor = torch.ones(2, device="cpu", pin_memory=True).pin_memory()
        assert (tensor.device.type, tensor.is_cuda, tensor.sum().item()) == ("cpu", False, 2)


def test_streams_and_events_take_every_call() -> None:
    with on_meta_device(), torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.Event(enable_timing=True).record(torch.cuda.current_stream())
        torch.cuda.synchronize()
        assert not torch.cuda.is_current_stream_capturing()


def test_torch_is_itself_again_after_the_block() -> None:
    before = (torch.cuda.Stream, torch.cuda.Event, torch.Tensor.is_cuda, hasattr(torch._C, "_cuda_setStream"))
    with on_meta_device():
        pass
    assert (torch.cuda.Stream, torch.cuda.Event, torch.Tensor.is_cuda, hasattr(torch._C, "_cuda_setStream")) == before
    with pytest.raises((AssertionError, RuntimeError)):
        torch.empty(2, device="cuda")
