"""What ends a build, and what a config.json must have."""

from __future__ import annotations

import pytest

from harness.adapters.whole_model import _keys, _sizes, ending
from harness.model.record import Ended
from harness.targets.journal import Journal

pytest.importorskip("transformers")


class Framed(ValueError):
    """As pydantic frames what a validator says."""

    def errors(self) -> list[dict[str, str]]:
        return [{"msg": "Value error, 64 heads must be divisible by 7"}]


@pytest.mark.parametrize(
    ("error", "ended", "words"),
    [
        (ValueError("No valid MLA prefill backend"), Ended.REFUSED, "No valid MLA prefill backend"),
        (AssertionError("8 is not divisible by 3"), Ended.REFUSED, "8 is not divisible by 3"),
        (Framed("1 validation error"), Ended.REFUSED, "64 heads must be divisible by 7"),
        (AssertionError(), Ended.RAISED, "AssertionError: "),
        (NotImplementedError(), Ended.RAISED, "NotImplementedError: "),
        (AttributeError("no attribute 'rope_theta'"), Ended.RAISED, "AttributeError: no attribute 'rope_theta'"),
        (KeyError("qk_nope_head_dim"), Ended.RAISED, "KeyError: 'qk_nope_head_dim'"),
        (
            Journal().limit("aiter.fused_moe"),
            Ended.INDETERMINATE,
            "cannot tell. Here: SimulationLimit: aiter.fused_moe",
        ),
    ],
)
def test_a_sentence_of_vllm_is_a_refusal_and_anything_else_is_not(error: Exception, ended: Ended, words: str) -> None:
    decision = ending(error)
    assert decision.ended is ended
    assert decision.detail.startswith(words)


def test_a_runtime_error_is_a_refusal_where_vllm_s_own_code_raised_it() -> None:
    def raised_in(path: str) -> Exception:
        try:
            exec(compile("raise RuntimeError('MLA attention requires FlashAttention')", path, "exec"))
        except RuntimeError as error:
            return error
        raise AssertionError

    assert ending(raised_in("/subject/vllm/attention.py")).ended is Ended.REFUSED
    assert ending(raised_in("/site-packages/other/file.py")).ended is Ended.RAISED
    assert ending(raised_in("/site-packages/torch/_meta.py")).ended is Ended.INDETERMINATE


def test_sizes_are_those_of_the_type_of_model_by_all_their_names() -> None:
    assert {"hidden_size"} in _sizes("llama")
    assert {"hidden_size", "n_embd"} in _sizes("gpt2")
    assert _sizes("a type of vllm's own") == []


def test_keys_are_found_at_any_depth() -> None:
    assert set(_keys({"a": 1, "text_config": {"hidden_size": 2}})) == {"a", "text_config", "hidden_size"}
