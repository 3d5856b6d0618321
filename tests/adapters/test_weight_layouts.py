from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from harness.adapters.decision import Decision
from harness.adapters.weight_layouts import decide_shuffled, decide_w4a16
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]
SHIFTS = torch.arange(8, dtype=torch.int32) * 4


@dataclass
class Config:
    full_weight_shape: tuple[int, int]
    group_size: int


def parameter(data: Any, weight_loader: object, **attributes: Any) -> torch.nn.Parameter:
    made = torch.nn.Parameter(data, requires_grad=False)
    vars(made).update(attributes)
    return made


class TritonW4A16LinearKernel:
    """A kernel of that name which believes the parameters about their layout, as it must."""

    def __init__(self, config: Config, *_names: str) -> None:
        self.config = config

    def process_weights_after_loading(self, layer: Any) -> None:
        rows_first = layer.weight.output_dim == 0
        words = layer.weight.data if rows_first else layer.weight.data.t()  # [N, K/8]
        numbers = ((words.unsqueeze(-1) >> SHIFTS) & 15).flatten(1).t()  # [K, N]
        packed = (numbers.unflatten(1, (-1, 8)) << SHIFTS).sum(-1, dtype=torch.int32)
        scales, zeros = layer.weight_scale.data, layer.weight_zero_point.data
        self.put(layer, packed, scales.t() if rows_first else scales, zeros.t() if self.turns(layer) else zeros)

    def turns(self, layer: Any) -> bool:
        return bool(layer.weight_zero_point.output_dim == 0)

    @staticmethod
    def put(layer: Any, *values: Any) -> None:
        for name, value in zip(("weight", "weight_scale", "weight_zero_point"), values, strict=True):
            setattr(layer, name, torch.nn.Parameter(value.contiguous(), requires_grad=False))


class ByShape(TritonW4A16LinearKernel):
    """The same, but it guesses by the shape whether the zero points must be turned."""

    def turns(self, layer: Any) -> bool:
        k, n = self.config.full_weight_shape
        return tuple(layer.weight_zero_point.shape) != (k // self.config.group_size, n // 8)


class Failing(TritonW4A16LinearKernel):
    def turns(self, layer: Any) -> bool:
        raise AttributeError("no output_dim")


ByShape.__name__ = Failing.__name__ = "TritonW4A16LinearKernel"


@pytest.fixture
def ask(stand_modules: Stand, make_cell: Callable[..., Cell]) -> Callable[..., Decision]:
    def decide(kernel: Any, layout: str, n: int, k: int) -> Decision:
        def choose(_config: Config) -> Any:
            if kernel is None:
                raise ValueError("Failed to find a kernel")
            return kernel

        linear = {"MPLinearLayerConfig": Config, "choose_mp_linear_kernel": choose}
        stand_modules(
            {
                "vllm.model_executor.kernels.linear": linear,
                "vllm.model_executor.parameter": {
                    "PackedvLLMParameter": parameter,
                    "GroupQuantScaleParameter": parameter,
                },
                "vllm.scalar_type": {"scalar_types": types.SimpleNamespace(uint4="uint4")},
            }
        )
        scheme = {"entry": "w4a16", "layout": layout, "n": n, "k": k, "group_size": 128}
        return decide_w4a16(make_cell("x", surface=Surface.WEIGHTS, scheme=scheme))

    return decide


PLAIN, SQUARE = (256, 512), (64, 1024)


@pytest.mark.parametrize("layout", ["compressed_tensors", "gptq"])
@pytest.mark.parametrize("shape", [PLAIN, SQUARE])
def test_every_number_in_its_place_is_the_right_layout(
    ask: Callable[..., Decision], layout: str, shape: tuple[int, int]
) -> None:
    decision = ask(TritonW4A16LinearKernel, layout, *shape)
    assert (decision.ended, decision.findings) == (Ended.ANSWERED, ())
    assert str(decision.chosen).endswith("; right layout")
    assert [item.answer for item in decision.evidence] == ["equal"] * 3


def test_a_guess_by_shape_is_caught_where_the_shape_says_nothing(ask: Callable[..., Decision]) -> None:
    assert ask(ByShape, "compressed_tensors", *PLAIN).findings == ()
    (finding,) = ask(ByShape, "compressed_tensors", *SQUARE).findings
    assert (finding.rule, finding.symbol) == ("layout", "TritonW4A16LinearKernel.process_weights_after_loading")
    assert "weight_zero_point wrong" in finding.message
    assert "(the words are transposed)" in finding.message


def test_the_layout_of_a_kernel_whose_format_is_not_known_is_told_and_not_judged(ask: Callable[..., Decision]) -> None:
    other = type("OtherKernel", (ByShape,), {})
    decision = ask(other, "compressed_tensors", *SQUARE)
    assert decision.chosen == (
        "OtherKernel: weight int32 [1024, 8]; weight_scale float16 [8, 64]; weight_zero_point int32 [8, 8]"
    )
    assert decision.findings == ()


class RDNAHybridW4A16LinearKernel(TritonW4A16LinearKernel):
    """Another format: weights in ExLlama's order along K, as bytes."""

    order = (0, 16, 4, 20, 8, 24, 12, 28)

    def process_weights_after_loading(self, layer: Any) -> None:
        rows_first = layer.weight.output_dim == 0
        words = layer.weight.data if rows_first else layer.weight.data.t()
        numbers = (words.unsqueeze(-1) >> SHIFTS) & 15  # [N, K/8, 8]
        packed = (numbers << torch.tensor(self.order, dtype=torch.int32)).sum(-1, dtype=torch.int32)
        scales, zeros = layer.weight_scale.data, layer.weight_zero_point.data
        if not rows_first:
            scales, zeros = scales.t(), zeros.t()
        self.put(layer, packed.view(torch.int8), scales, zeros)


class InOrder(RDNAHybridW4A16LinearKernel):
    order = (0, 4, 8, 12, 16, 20, 24, 28)


InOrder.__name__ = "RDNAHybridW4A16LinearKernel"


@pytest.mark.parametrize("layout", ["compressed_tensors", "gptq"])
def test_each_kernel_is_held_to_its_own_format(ask: Callable[..., Decision], layout: str) -> None:
    assert ask(RDNAHybridW4A16LinearKernel, layout, *PLAIN).findings == ()
    (finding,) = ask(InOrder, layout, *PLAIN).findings
    assert "gets weight wrong" in finding.message


def test_no_kernel_is_a_refusal_and_an_error_is_not(ask: Callable[..., Decision]) -> None:
    refused = ask(None, "gptq", *PLAIN)
    assert (refused.ended, refused.detail) == (Ended.REFUSED, "Failed to find a kernel")
    assert ask(Failing, "gptq", *PLAIN).ended is Ended.RAISED


# ---- shuffled weights of experts

METHOD = "vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method"
ORACLE = "vllm.model_executor.layers.fused_moe.oracle.unquantized"


def shuffled(value: Any, *, tag: bool = True) -> Any:
    moved = value.flip(-1).contiguous()
    moved.is_shuffled = tag
    return moved


def replace(layer: Any, name: str, value: Any, *, keep: bool) -> None:
    made = torch.nn.Parameter(value.data, requires_grad=False)
    if keep:
        vars(made).update(vars(value))
    setattr(layer, name, made)


@pytest.fixture
def set_up(stand_modules: Stand) -> Callable[[Callable[[Any, str], None]], Decision]:
    """Asks a method whose set-up does to each weight what is given."""

    def decide(treat: Callable[[Any, str], None]) -> Decision:
        class UnquantizedFusedMoEMethod(torch.nn.Module):
            def _setup_kernel(self, layer: Any, w13: Any, w2: Any) -> None:
                assert self.unquantized_backend == "AITER"
                for name in ("w13_weight", "w2_weight"):
                    treat(layer, name)

        UnquantizedFusedMoEMethod.__module__ = METHOD
        backend = types.SimpleNamespace(AITER="AITER")
        own = {"UnquantizedFusedMoEMethod": UnquantizedFusedMoEMethod, "make_unquantized_moe_kernel": "real"}
        stand_modules({METHOD: own, ORACLE: {"UnquantizedMoeBackend": backend}})
        return decide_shuffled()

    return decide


Set = Callable[[Callable[[Any, str], None]], Decision]


def test_a_shuffled_weight_that_says_so_is_right(set_up: Set) -> None:
    decision = set_up(lambda layer, name: replace(layer, name, shuffled(getattr(layer, name).data), keep=True))
    assert decision.chosen == "w13_weight shuffled, is_shuffled=True; w2_weight shuffled, is_shuffled=True"
    assert decision.findings == ()


def test_a_tag_that_is_lost_with_the_parameter_is_a_fault(set_up: Set) -> None:
    decision = set_up(lambda layer, name: replace(layer, name, shuffled(getattr(layer, name).data), keep=False))
    assert {finding.rule for finding in decision.findings} == {"layout"}
    assert [finding.message.partition(":")[0] for finding in decision.findings] == [
        "w13_weight is shuffled and does not say so",
        "w2_weight is shuffled and does not say so",
    ]


def test_a_tag_on_a_plain_weight_is_a_fault(set_up: Set) -> None:
    def tag(layer: Any, name: str) -> None:
        getattr(layer, name).is_shuffled = True

    assert "says that it is shuffled and is not" in set_up(tag).findings[0].message


def test_an_error_on_the_way_is_an_observation_and_the_module_is_put_back(set_up: Set) -> None:
    def fail(_layer: Any, _name: str) -> None:
        raise KeyError("x")

    assert set_up(fail).ended is Ended.RAISED
    import importlib

    assert importlib.import_module(METHOD).make_unquantized_moe_kernel == "real"


def test_a_release_without_the_method_is_unsupported(stand_modules: Stand) -> None:
    stand_modules({METHOD: {}, ORACLE: {}})
    assert decide_shuffled().ended is Ended.UNSUPPORTED


# ---- real vLLM


def test_0_28_0_guesses_the_zero_points_by_shape_and_0_29_0_does_not(routed: Callable[..., dict[str, Record]]) -> None:
    words = {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"], "kernels": ["w4a16_layout"]}
    faulty = {record.kernel for record in routed("0.28.0", words).values() if record.findings}
    assert faulty == {"ct_layout_square"}
    assert {record.outcome for record in routed("0.29.0", words).values()} == {"passed"}
