from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.adapters.decision import Missing
from harness.adapters.moe_config import CONFIG, activations, moe_config, parallel_config, quant_key

ACTIVATION = "vllm.model_executor.layers.fused_moe.activation"
KEYS = "vllm.model_executor.layers.quantization.utils.quant_utils"
QWEN = {"experts": 128, "topk": 8, "hidden": 4096, "intermediate": 1536, "routing": "Renormalize"}

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]


class Routing(enum.IntEnum):
    Renormalize = 1


class Activation(enum.Enum):
    SILU = "silu"
    RELU2_NO_MUL = "relu2_no_mul"


@dataclasses.dataclass
class Parallel:
    tp_size: int
    pcp_size: int
    dp_size: int
    ep_size: int
    tp_rank: int
    dp_rank: int
    use_ep: bool
    all2all_backend: str


@dataclasses.dataclass
class Early:
    """The configuration of vLLM 0.20."""

    num_experts: int
    intermediate_size_per_partition: int
    num_local_experts: int
    activation: Activation
    routing_method: Routing
    moe_parallel_config: Parallel
    moe_backend: str = "auto"
    has_bias: bool = False
    is_act_and_mul: bool = True
    is_lora_enabled: bool = False


@dataclasses.dataclass
class Late:
    """The configuration of vLLM 0.33."""

    num_experts: int
    hidden_dim: int
    intermediate_size: int
    num_local_experts: int
    activation: Activation
    moe_parallel_config: Parallel
    in_dtype: Any
    moe_backend: str = "auto"
    has_hash_routing: bool = False
    swiglu_limit: float | None = None


@pytest.fixture
def build(stand_modules: Stand) -> Callable[..., Any]:
    """Builds a configuration of one of the two."""

    def made(cls: type, **scheme: object) -> Any:
        stand_modules({
            CONFIG: {"FusedMoEConfig": cls, "FusedMoEParallelConfig": Parallel, "RoutingMethodType": Routing},
            ACTIVATION: {"MoEActivation": Activation},
            KEYS: {"kMxfp4Static": "a key"},
        })  # fmt: skip
        return moe_config({**QWEN, **scheme})  # type: ignore[arg-type]

    return made


def test_an_early_release_is_told_the_share_of_one_rank_and_a_late_one_the_whole(build: Callable[..., Any]) -> None:
    assert build(Early, tp=8).intermediate_size_per_partition == 192
    assert build(Late, tp=8).intermediate_size == 1536


def test_an_early_release_is_told_apart_from_the_activation_that_a_layer_is_not_gated(
    build: Callable[..., Any],
) -> None:
    assert build(Early).is_act_and_mul is True
    assert build(Early, function="relu2_no_mul").is_act_and_mul is False
    assert build(Late, function="relu2_no_mul").activation is Activation.RELU2_NO_MUL


def test_experts_that_are_spread_are_whole_and_fewer_on_a_rank(build: Callable[..., Any]) -> None:
    config = build(Late, ep=8, dp=8, all2all="deepep_low_latency")
    assert (config.num_experts, config.num_local_experts) == (128, 16)
    parallel = config.moe_parallel_config
    assert (parallel.tp_size, parallel.ep_size, parallel.dp_size, parallel.use_ep) == (1, 8, 8, True)
    assert parallel.all2all_backend == "deepep_low_latency"


def test_without_words_of_the_scheme_the_release_keeps_its_defaults(build: Callable[..., Any]) -> None:
    config = build(Early)
    assert (config.moe_backend, config.has_bias, config.is_lora_enabled) == ("auto", False, False)
    config = build(Early, backend="triton", bias=True, lora=True)
    assert (config.moe_backend, config.has_bias, config.is_lora_enabled) == ("triton", True, True)


@pytest.mark.parametrize(
    ("scheme", "what"),
    [
        ({"hash_routing": True}, "FusedMoEConfig.has_hash_routing"),
        ({"decomposed": True}, "FusedMoEConfig.require_decomposed_backend"),
        ({"swiglu_limit": 10}, "FusedMoEConfig.swiglu_limit"),
        ({"routing": "DeepseekV4"}, "routing method DeepseekV4"),
        ({"function": "situ"}, "MoE activation situ"),
    ],
)
def test_what_a_release_cannot_express_is_missing_by_name_and_never_left_out(
    build: Callable[..., Any], scheme: dict[str, object], what: str
) -> None:
    with pytest.raises(Missing, match=f"^{what}$"):
        build(Early, **scheme)


def test_an_option_turned_off_needs_no_support(build: Callable[..., Any]) -> None:
    assert build(Early, hash_routing=False).num_experts == 128
    assert build(Late, hash_routing=True, swiglu_limit=10).has_hash_routing is True


def test_one_rank_alone_is_spread_over_nothing(build: Callable[..., Any]) -> None:
    build(Late)
    assert parallel_config() == Parallel(1, 1, 1, 1, 0, 0, False, "allgather_reducescatter")


def test_a_key_is_found_by_name_and_none_stays_none(build: Callable[..., Any]) -> None:
    build(Late)
    assert quant_key("kMxfp4Static") == "a key"
    assert quant_key(None) is None
    with pytest.raises(Missing, match="quantization key kMxfp9"):
        quant_key("kMxfp9")


def test_activations_go_by_their_value(build: Callable[..., Any], stand_modules: Stand) -> None:
    build(Late)
    assert list(activations()) == ["silu", "relu2_no_mul"]
    stand_modules({ACTIVATION: {}})
    assert activations() == {}
