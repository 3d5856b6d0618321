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


@contextmanager
def vllm_config() -> Iterator[None]:
    """Set vLLM's current configuration to its defaults while the block runs."""
    from vllm.config import VllmConfig, set_current_vllm_config

    config = VllmConfig()
    text = _NoFeature(model_type="gfxloop", architectures=["GfxloopForCausalLM"])
    config.model_config = _NoFeature(hf_config=text, hf_text_config=text, attn_type="decoder", is_mm_prefix_lm=False)
    with set_current_vllm_config(config):
        yield
