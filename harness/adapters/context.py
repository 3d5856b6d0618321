"""The vLLM configuration that a decision is made under: vLLM's defaults, and a model without features of its own."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _NoFeature(types.SimpleNamespace):
    """A model configuration in which every feature that is not named is absent (None)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def model_of(**features: Any) -> Any:
    """A model configuration with these features and no other; ``model_type`` is that of its Hugging Face file."""
    text = _NoFeature(model_type=features.pop("model_type", "gfxloop"), architectures=["GfxloopForCausalLM"])
    return _NoFeature(hf_config=text, hf_text_config=text, **features)


@contextmanager
def vllm_config() -> Iterator[None]:
    """Set vLLM's current configuration to its defaults while the block runs."""
    from vllm.config import VllmConfig, set_current_vllm_config

    config = VllmConfig()
    text = _NoFeature(model_type="gfxloop", architectures=["GfxloopForCausalLM"])
    config.model_config = _NoFeature(hf_config=text, hf_text_config=text, attn_type="decoder", is_mm_prefix_lm=False)
    with set_current_vllm_config(config):
        yield


@contextmanager
def one_rank() -> Iterator[None]:
    """vLLM's tensor-parallel group as a group of one while the block runs, unless there is a group already.

    No process group is made: code that only asks for ranks and sizes needs none, and whatever communicates fails.
    """
    from vllm.distributed import parallel_state

    before = parallel_state._TP
    if before is None:
        parallel_state._TP = types.SimpleNamespace(world_size=1, rank_in_group=0, rank=0, ranks=[0], local_rank=0)
    try:
        yield
    finally:
        parallel_state._TP = before
