from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from harness.adapters.context import _NoFeature, model_of, vllm_config


def test_a_model_without_features_lacks_every_one_that_is_not_named() -> None:
    model = _NoFeature(attn_type="decoder")
    assert model.attn_type == "decoder"
    assert model.is_hybrid is None
    assert model.quantization is None


@pytest.mark.parametrize("protocol", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), repr])
def test_a_model_without_features_is_an_ordinary_object_to_python(protocol: Callable[[object], object]) -> None:
    model = _NoFeature(attn_type="decoder")
    assert not hasattr(model, "__wrapped__")
    assert "decoder" in repr(protocol(model))


def test_the_configuration_is_set_while_the_block_runs(
    stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None],
) -> None:
    current: list[object] = []

    class VllmConfig:
        model_config: object = None

    @contextmanager
    def set_current_vllm_config(config: object) -> Iterator[None]:
        current.append(config)
        yield
        current.pop()

    stand_modules({"vllm.config": {"VllmConfig": VllmConfig, "set_current_vllm_config": set_current_vllm_config}})
    with vllm_config():
        (config,) = current
        assert config.model_config.hf_config.architectures == ["GfxloopForCausalLM"]  # type: ignore[attr-defined]
    assert current == []


def test_a_model_has_the_features_that_are_named_and_no_other() -> None:
    model = model_of(model_type="deepseek_v4", use_mla=True)
    assert (model.use_mla, model.hf_config.model_type, model.quantization) == (True, "deepseek_v4", None)
    assert model_of().hf_config.model_type == "gfxloop"
