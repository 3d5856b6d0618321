"""Weights and passes of a model of torch's, with a post-processing that stands where vLLM's would."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from harness.adapters import meta_forward
from harness.adapters.meta_forward import _guarded, _make_scales_real, _operator
from harness.adapters.meta_record import Recording

torch = pytest.importorskip("torch")

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]


class Processed(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.weight_scale = torch.nn.Parameter(torch.empty(3, device="meta"), requires_grad=False)
        self.weight = torch.nn.Parameter(torch.empty(8, 8, device="meta"), requires_grad=False)
        self.fails, self.processed = fails, 0

    def process_weights_after_loading(self) -> None:
        self.processed += 1
        if self.fails:
            raise ValueError("this one cannot be processed")


def test_scales_become_real_ones_and_weights_stay_without_memory() -> None:
    module = Processed()
    _make_scales_real(module)
    assert module.weight_scale.tolist() == [1.0, 1.0, 1.0]
    assert module.weight.device.type == "meta"


def test_a_module_that_cannot_be_processed_is_told_and_does_not_keep_the_others_from_it() -> None:
    model = torch.nn.ModuleDict({"one": Processed(fails=True), "two": Processed(), "three": Processed()})
    recording = Recording()
    with _guarded(model, {"three": "two"}, recording):
        for module in model.values():
            module.process_weights_after_loading()
    assert [module.processed for module in model.values()] == [1, 1, 1]
    assert [(stop.module, stop.words) for stop in recording.stops] == [
        ("one", "ValueError: this one cannot be processed")
    ]
    with pytest.raises(ValueError, match="cannot be processed"):
        model["one"].process_weights_after_loading()


def test_below_a_repeated_layer_nothing_is_processed() -> None:
    model = torch.nn.ModuleDict({"layer": torch.nn.ModuleDict({"inner": Processed()})})
    with _guarded(model, {"layer": "other"}, Recording()):
        model["layer"]["inner"].process_weights_after_loading()
    assert model["layer"]["inner"].processed == 0


def test_the_operator_that_has_no_kernel_is_read_from_what_torch_says() -> None:
    assert (
        _operator(NotImplementedError("aten::_local_scalar_dense: no kernel for Meta")) == "aten::_local_scalar_dense"
    )
    assert _operator(KeyError("x")) == "KeyError"


def test_prefill_and_decode_are_asked_at_the_same_sizes() -> None:
    assert meta_forward.TOKENS == (1, 8, 64, 1024)
