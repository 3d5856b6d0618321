"""Layers that are the same are run twice and no more, on small models of torch's."""

from __future__ import annotations

from typing import Any

import pytest

from harness.adapters.equal_layers import layer_names, repeated, run_once

torch = pytest.importorskip("torch")


class Layer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(4, width, device="meta")
        self.ran = 0

    def forward(self, hidden: Any) -> Any:
        self.ran += 1
        return hidden + 1


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(width) for width in widths)

    def forward(self, hidden: Any) -> Any:
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


def test_from_the_third_of_a_kind_on_a_layer_is_a_repeat_of_the_second() -> None:
    model = Model(8, 8, 8, 16, 8)
    assert layer_names(model) == [f"layers.{number}" for number in range(5)]
    assert repeated(model) == {"layers.2": "layers.1", "layers.4": "layers.1"}


def test_a_parameter_of_another_shape_or_another_class_makes_another_kind() -> None:
    model = Model(8, 8, 8)
    model.layers[2].up = torch.nn.Linear(4, 8, bias=False, device="meta")
    assert repeated(model) == {}
    model.layers[2] = torch.nn.Sequential(*model.layers[1].children())
    assert repeated(model) == {}


def test_a_repeat_hands_on_what_the_second_gave_and_runs_again_after_the_block() -> None:
    model = Model(8, 8, 8, 8)
    with run_once(model, repeated(model)):
        assert model(torch.zeros(1)).item() == 2
    assert [layer.ran for layer in model.layers] == [1, 1, 0, 0]
    assert model(torch.zeros(1)).item() == 4
