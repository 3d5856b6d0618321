"""What a pass reaches and what stops it."""

from __future__ import annotations

import pytest

from harness.adapters.meta_record import Recording, device_code
from harness.targets.journal import Journal


def test_operators_are_kept_in_the_order_of_their_first_call() -> None:
    recording = Recording()
    for name in ("aten::mm", "_C::silu", "aten::mm"):
        recording.note(name)
    assert list(recording.reached) == ["aten::mm", "_C::silu"]


def test_a_stop_names_the_operator_and_the_module_that_was_running_once() -> None:
    recording = Recording(running=["model", "model.layers.3"])
    for _ in range(2):
        recording.stop("aten::item", RuntimeError("no value"))
    (stop,) = recording.stops
    assert (stop.at, stop.module, stop.words) == ("aten::item", "model.layers.3", "RuntimeError: no value")


@pytest.mark.parametrize("module", ["layers.0.experts", "layers.0.experts.routed", "layers.0.experts.shared"])
def test_what_stops_where_weights_were_not_processed_is_a_consequence(module: str) -> None:
    recording = Recording(running=[module], unprocessed=("layers.0.experts.routed",))
    recording.stop("vllm::moe_forward", AssertionError())
    assert recording.stops[0].words == "its weights could not be processed"


def test_what_stops_elsewhere_is_no_consequence() -> None:
    recording = Recording(running=["layers.0.attn"], unprocessed=("layers.0.experts.routed",))
    recording.stop("vllm::attention", ValueError("a fault"))
    assert recording.stops[0].words == "ValueError: a fault"


def test_the_function_of_a_stand_in_is_named_and_no_other_error_is() -> None:
    assert device_code(Journal().limit("aiter.fused_moe")) == "aiter.fused_moe"
    assert device_code(RuntimeError("aiter.fused_moe: out of memory")) == ""
