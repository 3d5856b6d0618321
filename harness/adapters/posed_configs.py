"""Configurations of vLLM that are posed: plain objects with what a deciding function may look at, one thing moved each.

In: nothing. Out: name -> configuration. What is not named is None, or one for a size. A function may change the one
that it is given, so each call gets a copy.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from harness.adapters.answers import shown
from harness.adapters.decision import find

_PREFILL = "vllm.v1.attention.backends.mla.prefill.registry"
_DEEPSEEK = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}


class Posed(types.SimpleNamespace):
    """A configuration in which every section or feature that is not named is absent (None)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def posed_configs() -> Mapping[str, Any]:
    """The configurations, by what is moved in each: ``section.name=value``."""
    configs: dict[str, Any] = {"None": None, "plain": _config()}
    for path, words in _moved():
        section, _, name = path.partition(".")
        for word, value in words.items():
            configs[f"{path}={word}"] = _config({section: {name: value}})
    configs["no model"] = _without_model()
    configs["pcp full graphs"] = _config(
        {"parallel_config": {"prefill_context_parallel_size": 2}, "compilation_config": _graphs("FULL")}
    )
    configs["mm prefix"] = _config(
        {"model_config": {"is_mm_prefix_lm": True}, "scheduler_config": {"is_multimodal_model": True}}
    )
    configs["inductor graphs"] = _config({"compilation_config": {"backend": "inductor", **_graphs("PIECEWISE")}})
    return configs


def copied(value: Any) -> Any:
    """The same configuration as an object of its own; anything else as it is."""
    if not isinstance(value, Posed):
        return value
    return Posed(**{name: copied(inner) for name, inner in vars(value).items()})


def changes(before: Any, after: Any, names: Mapping[Any, str]) -> str:
    """What a function changed of the configuration that it was given: ``cache_config.kv_cache_layout=LBHNC``."""
    was, now = dict(_flat(before, "", names)), dict(_flat(after, "", names))
    return " ".join(f"{path}={value}" for path, value in now.items() if was.get(path) != value)


def _flat(value: Any, path: str, names: Mapping[Any, str]) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Posed):
        yield path, shown(value, names)
        return
    for name, inner in vars(value).items():
        yield from _flat(inner, f"{path}.{name}".lstrip("."), names)


def _config(moved: Mapping[str, Mapping[str, Any]] | None = None) -> Any:
    import torch

    sections: dict[str, dict[str, Any]] = {
        "cache_config": {"cache_dtype": "auto", "block_size": 16, "user_specified_block_size": False},
        "model_config": {"dtype": torch.bfloat16, "hf_text_config": Posed(**_DEEPSEEK), "attn_type": "decoder"},
        "parallel_config": {"prefill_context_parallel_size": 1, "decode_context_parallel_size": 1},
        "attention_config": {"use_non_causal": False},
        "scheduler_config": {"disable_chunked_mm_input": False},
        "compilation_config": {"custom_ops": [], **_graphs("NONE")},
        "additional_config": {},
    }
    for section, values in (moved or {}).items():
        sections[section] = {**sections.get(section, {}), **values}
    named = {name: Posed(**values) for name, values in sections.items()}
    return Posed(**{name: named[name] for name in named})


def _graphs(name: str) -> dict[str, Any]:
    modes = find("vllm.config.compilation", "CUDAGraphMode")
    compiled = find("vllm.config.compilation", "CompilationMode")
    return {
        "cudagraph_mode": getattr(modes, name, None),
        "mode": getattr(compiled, "NONE" if name == "NONE" else "VLLM_COMPILE", None),
    }


def _without_model() -> Any:
    config = _config()
    config.model_config = None
    return config


def _moved() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path below the configuration -> values by a word for each."""
    import torch

    members = getattr(find(_PREFILL, "MLAPrefillBackendEnum"), "__members__", {})
    backends = getattr(find("vllm.v1.attention.backends.registry", "AttentionBackendEnum"), "__members__", {})
    dtypes = ("fp8", "bfloat16", "turboquant_k8v4", "ultraquant_4bit", "octave_k3v4")
    yield "cache_config.cache_dtype", {name: name for name in dtypes}
    yield "cache_config.user_specified_block_size", {"yes": True}
    yield "cache_config.kv_cache_layout", {"LBHNC": "LBHNC"}
    yield "model_config.dtype", {"float16": torch.float16, "float32": torch.float32}
    yield "model_config.attn_type", {"encoder_decoder": "encoder_decoder"}
    yield "model_config.rswa_window", {"128": 128}
    yield (
        "model_config.hf_text_config",
        {"192/64/256": Posed(qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256)},
    )
    yield "attention_config.mla_prefill_backend", dict(members)
    yield "attention_config.backend", {name: backends[name] for name in ("TRITON_ATTN",) if name in backends}
    yield "attention_config.backend_per_kind", {"full": {"full_attention": "chosen"}, "other": {"mamba": "chosen"}}
    yield "attention_config.use_non_causal", {"yes": True}
    yield "kv_transfer_config.is_kv_transfer_instance", {"no": False, "yes": True}
    yield "speculative_config.enable_adaptive_verification", {"no": False, "yes": True}
    yield "parallel_config.prefill_context_parallel_size", {"2": 2}
    yield "parallel_config.decode_context_parallel_size", {"2": 2}
    yield "scheduler_config.is_multimodal_model", {"yes": True}
    yield "compilation_config.backend", {"inductor": "inductor"}
