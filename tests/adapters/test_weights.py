from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness.adapters.decision import Decision
from harness.adapters.weights import decide_weights
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]
LINEAR = "vllm.model_executor.layers.linear"
QUANTIZATION = "vllm.model_executor.layers.quantization"


class Method:
    """A quantization method that turns the weight round."""

    def process_weights_after_loading(self, layer: Any) -> None:
        layer.weight = torch.nn.Parameter(layer.weight.data.t(), requires_grad=False)


class Layer(torch.nn.Module):
    """A linear layer whose bias is frozen, as inference wants it."""

    gradients = False

    def __init__(self, input_size: int, output_size: int, bias: bool, quant_config: object = None) -> None:
        super().__init__()
        self.quant_method = Method()
        dtype = torch.float16 if quant_config else None
        self.weight = torch.nn.Parameter(torch.empty(output_size, input_size, dtype=dtype), requires_grad=False)
        self.weight.weight_loader = self.load  # type: ignore[assignment]
        if bias:
            self.bias = torch.nn.Parameter(torch.empty(output_size), requires_grad=self.gradients)

    def load(self) -> None:
        """Names the loader."""


class Learning(Layer):
    """The same with a bias that asks for gradients."""

    gradients = True


class Refusing(Layer):
    """A layer for which vLLM finds no kernel."""

    def __init__(self, **_arguments: object) -> None:
        raise ValueError("Failed to find a kernel")


class Broken(Layer):
    """A layer whose construction is at fault."""

    def __init__(self, **_arguments: object) -> None:
        raise TypeError("missing argument")


@pytest.fixture
def state() -> types.SimpleNamespace:
    return types.SimpleNamespace(_TP=None)


@pytest.fixture
def ask(stand_modules: Stand, make_cell: Callable[..., Cell], state: object) -> Callable[..., Decision]:
    def decide(kind: object, **scheme: str | int | bool) -> Decision:
        config = types.SimpleNamespace(from_config=lambda config: config)
        stand_modules(
            {
                "vllm": {"__path__": []},
                "vllm.distributed": {"parallel_state": state},
                LINEAR: {"ReplicatedLinear": kind} if kind else {},
                QUANTIZATION: {"get_quantization_config": lambda _name: config},
            }
        )
        asked = {"entry": "layer", "layer": "ReplicatedLinear", **scheme}
        return decide_weights(make_cell("x", surface=Surface.WEIGHTS, scheme=asked))

    return decide


def test_the_answer_is_every_parameter_and_how_it_is_loaded(ask: Callable[..., Decision]) -> None:
    decision = ask(Layer)
    assert decision.chosen == (
        "weight Parameter bfloat16 [256, 512] grad=False loader=load; "
        "bias Parameter bfloat16 [256] grad=False loader=NoneType"
    )
    assert (decision.ended, decision.symbol, decision.findings) == (Ended.ANSWERED, "ReplicatedLinear", ())


def test_a_parameter_that_asks_for_gradients_says_so(ask: Callable[..., Decision]) -> None:
    assert "bias Parameter bfloat16 [256] grad=True" in str(ask(Learning).chosen)


def test_a_scheme_quantises_the_layer_and_leaves_the_bias_out(ask: Callable[..., Decision]) -> None:
    decision = ask(Layer, quant="fp8_block")
    assert decision.chosen == "weight Parameter float16 [256, 512] grad=False loader=load"


def test_processing_shows_what_a_weight_has_become(ask: Callable[..., Decision]) -> None:
    decision = ask(Layer, processed=True)
    assert decision.chosen == "weight bfloat16 [512, 256] grad=False stride=[1, 512]"
    assert decision.evidence[0].answer == "Method"


@pytest.mark.parametrize(
    ("kind", "ended", "detail"),
    [
        (Refusing, Ended.REFUSED, "Failed to find a kernel"),
        (Broken, Ended.RAISED, "TypeError: missing argument"),
        (None, Ended.UNSUPPORTED, f"this vLLM has no layer {LINEAR}.ReplicatedLinear"),
    ],
)
def test_a_refusal_is_told_from_a_fault_and_from_a_missing_layer(
    ask: Callable[..., Decision], kind: object, ended: Ended, detail: str
) -> None:
    decision = ask(kind)
    assert (decision.ended, decision.detail) == (ended, detail)


def test_group_and_default_dtype_are_put_back_whatever_happens(
    ask: Callable[..., Decision], state: types.SimpleNamespace
) -> None:
    seen: list[object] = []

    class Looking(Layer):
        def __init__(self, **_arguments: object) -> None:
            seen.extend([state._TP.world_size, state._TP.rank_in_group, torch.get_default_dtype()])
            raise RuntimeError

    before = torch.get_default_dtype()
    ask(Looking)
    assert seen == [1, 0, torch.bfloat16]
    assert (state._TP, torch.get_default_dtype()) == (None, before)


# ---- real vLLM


def test_0_29_0_gives_biases_gradients_and_0_30_0_does_not(routed: Callable[..., dict[str, Record]]) -> None:
    words = {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"], "kernels": ["created"]}
    faulty = [record for record in routed("0.29.0", words).values() if record.findings]
    assert {finding.rule for record in faulty for finding in record.findings} == {"I16"}
    assert "replicated" in {record.kernel for record in faulty}
    assert [record.id for record in routed("0.30.0", words).values() if record.findings] == []
