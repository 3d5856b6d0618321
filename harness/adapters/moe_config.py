"""vLLM's description of a MoE layer, ``FusedMoEConfig``, for every release: one request, whatever the release calls it.

In: the scheme of a kernel of surface ``moe``. Out: the configuration object, and quantization keys by name. It must not
choose for the subject: what a release cannot express is ``Missing``, never left out in silence.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

from harness.adapters.decision import Missing, find
from harness.adapters.watch import accepted_arguments, parameters_of

CONFIG = "vllm.model_executor.layers.fused_moe.config"
KERNEL = "vllm.model_executor.layers.fused_moe.modular_kernel"
_ACTIVATIONS = "vllm.model_executor.layers.fused_moe.activation"
_KEYS = "vllm.model_executor.layers.quantization.utils.quant_utils"

Scheme = Mapping[str, str | int | float | bool]


def quant_key(name: str | None) -> Any:
    """A quantization key of ``quant_utils`` by name; None stays None.

    Raises:
        Missing: the release has no such key.
    """
    if name is None:
        return None
    key = find(_KEYS, name)
    if key is None:
        raise Missing(f"quantization key {name}")
    return key


def key_names() -> dict[Any, str]:
    """The quantization keys of the release with their names; of two names of one key the first."""
    names: dict[Any, str] = {}
    for name, key in sorted(vars(importlib.import_module(_KEYS)).items()):
        if re.match(r"k[A-Z]", name):
            names.setdefault(key, name)
    return names


def activations() -> dict[str, Any]:
    """Every activation of the release by its value (``silu``, ``relu2_no_mul``)."""
    members = find(_ACTIVATIONS, "MoEActivation")
    return {member.value: member for member in members or ()}


def parallel_config(
    *, tp: int = 1, ep: int = 1, dp: int = 1, all2all: str = "allgather_reducescatter", eplb: bool = False
) -> Any:
    """How a MoE layer is spread, seen from rank 0.

    Args:
        tp: over how many ranks each expert's weights are split.
        ep: over how many ranks the experts are spread.
        dp: how many ranks bring tokens of their own, which makes vLLM use an all-to-all.
        all2all: which one.
        eplb: whether experts move between ranks to even out their load.
    """
    cls = importlib.import_module(CONFIG).FusedMoEParallelConfig
    sizes = {"tp_size": tp, "pcp_size": 1, "dp_size": dp, "ep_size": ep, "sp_size": 1}
    ranks = {"tp_rank": 0, "pcp_rank": 0, "dp_rank": 0, "ep_rank": 0}
    rest = {"use_ep": ep > 1, "all2all_backend": all2all, "enable_eplb": eplb}
    return cls(**accepted_arguments(cls, {**sizes, **ranks, **rest}))


def moe_config(scheme: Scheme) -> Any:
    """The ``FusedMoEConfig`` of a scheme.

    Raises:
        Missing: the release cannot express it.
    """
    import torch

    module = importlib.import_module(CONFIG)
    cls = module.FusedMoEConfig
    known = parameters_of(cls)
    tp, ep = int(scheme.get("tp", 1)), int(scheme.get("ep", 1))
    activation = str(scheme.get("function", "silu"))
    arguments = {
        "num_experts": scheme["experts"],
        "experts_per_token": scheme["topk"],
        "hidden_dim": scheme["hidden"],
        "num_local_experts": int(scheme["experts"]) // ep,
        "num_logical_experts": scheme["experts"],
        "activation": _named(activations(), activation, "MoE activation"),
        "device": "cpu",
        "routing_method": _named(module.RoutingMethodType.__members__, str(scheme["routing"]), "routing method"),
        "moe_parallel_config": parallel_config(
            tp=tp, ep=ep, dp=int(scheme.get("dp", 1)), all2all=str(scheme.get("all2all", "allgather_reducescatter"))
        ),
        "in_dtype": torch.bfloat16,
        "is_act_and_mul": not activation.endswith("_no_mul"),  # vllm<0.24: apart from the activation
        **_wanted(scheme, known),
        **_intermediate(int(scheme["intermediate"]), tp, known),
    }
    return cls(**accepted_arguments(cls, arguments))


_OPTIONS: Mapping[str, str] = {
    "backend": "moe_backend",
    "bias": "has_bias",
    "lora": "is_lora_enabled",
    "hash_routing": "has_hash_routing",
    "decomposed": "require_decomposed_backend",
    "swiglu_limit": "swiglu_limit",
    "swiglu_alpha": "swiglu_alpha",
    "swiglu_beta": "swiglu_beta",
}
"""Key of the scheme -> parameter of ``FusedMoEConfig``. What the scheme leaves out keeps vLLM's default."""


def _wanted(scheme: Scheme, known: Mapping[str, object]) -> dict[str, object]:
    for key, name in _OPTIONS.items():
        if scheme.get(key) and name not in known:
            raise Missing(f"FusedMoEConfig.{name}")
    return {name: scheme[key] for key, name in _OPTIONS.items() if key in scheme}


def _intermediate(size: int, tp: int, known: Mapping[str, object]) -> dict[str, int]:
    if "intermediate_size" in known:
        return {"intermediate_size": size}
    return {"intermediate_size_per_partition": size // tp}  # vllm<0.24: of one rank


def _named(members: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in members:
        raise Missing(f"{what} {name}")
    return members[name]
