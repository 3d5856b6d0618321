"""The adapter against a small layer of ours; one test asks a real release."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from harness.adapters import device_tensors, unquantized
from harness.adapters.unquantized import TOKENS, decide_unquantized
from harness.model.cell import Cell, Layer, Surface
from harness.model.record import Ended, Evidence

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]
Apply = Callable[[Any, Any, Any], Any]
LAYER = Layer("o", 48, 64)
BF16 = {"dtype": "bfloat16"}


def rocm_unquantized_gemm() -> None: ...


@pytest.fixture(autouse=True)
def _operators() -> Iterator[None]:
    device_tensors._kind.cache_clear()
    library: Any = torch.library.Library("_rocm_C", "FRAGMENT")
    library.define("gfxloop_skinny(Tensor w, Tensor x) -> Tensor")
    library.impl("gfxloop_skinny", lambda w, x: x.new_empty((x.size(0), w.size(0))), "CompositeExplicitAutograd")
    yield
    library._destroy()
    device_tensors._kind.cache_clear()


@pytest.fixture
def ask(stand_modules: Stand, make_cell: Callable[..., Cell]) -> Callable[..., Any]:
    """Asks a cell of a vLLM whose layers do ``apply(layer, x, bias)``."""

    def asked(apply: Apply, scheme: Mapping[str, Any] = BF16, layer: Layer | None = LAYER, **modules: Any) -> Any:
        class Method:
            def process_weights_after_loading(self, layer: Any) -> None: ...

            def apply(self, layer: Any, x: Any, bias: Any) -> Any:
                return apply(layer, x, bias)

        platform = types.SimpleNamespace(dispatch_key="CUDA", is_cuda_alike=lambda: True, is_cpu=lambda: False)
        layers = "vllm.model_executor.layers"
        stand_modules(
            {
                "vllm.platforms": {"current_platform": platform},
                f"{layers}.linear": {"UnquantizedLinearMethod": Method, **modules},
                f"{layers}.vocab_parallel_embedding": {},
                f"{layers}.utils": {
                    "dispatch_unquantized_gemm": lambda: rocm_unquantized_gemm,
                    "rocm_unquantized_gemm_impl": lambda: None,
                },
            }
        )
        return decide_unquantized(make_cell("gemm", surface=Surface.UNQUANTIZED_GEMM, layer=layer, scheme=scheme))

    return asked


def _skinny_up_to_five(layer: Any, x: Any, bias: Any) -> Any:
    if x.shape[0] <= 5:
        return torch.ops._rocm_C.gfxloop_skinny(layer.weight, x)
    return torch.nn.functional.linear(x, layer.weight, bias)


def _linear(layer: Any, x: Any, bias: Any) -> Any:
    return torch.nn.functional.linear(x, layer.weight, bias)


def test_the_answer_tells_where_it_changes_with_the_tokens(ask: Callable[..., Any]) -> None:
    decision = ask(_skinny_up_to_five)
    assert (decision.ended, decision.chosen) == (Ended.ANSWERED, "1:gfxloop_skinny 6:linear")
    assert decision.symbol == "rocm_unquantized_gemm_impl"
    assert Evidence(question="operator for M=5", answer="_rocm_C::gfxloop_skinny") in decision.evidence
    assert Evidence(question="operator _rocm_C::gfxloop_skinny", answer="declared") in decision.evidence
    assert len([item for item in decision.evidence if "M=" in item.question]) == len(TOKENS)


def test_one_answer_for_all_tokens_is_its_name(ask: Callable[..., Any]) -> None:
    assert ask(_linear).chosen == "linear"


def test_a_scheme_can_ask_about_one_number_of_tokens_and_a_shape_of_its_own(ask: Callable[..., Any]) -> None:
    seen = []

    def apply(layer: Any, x: Any, bias: Any) -> Any:
        seen.append((tuple(layer.weight.shape), tuple(x.shape), x.dtype, bias))
        return _linear(layer, x, bias)

    assert ask(apply, {"dtype": "float16", "n": 8, "k": 16, "tokens": 3}, None).chosen == "linear"
    assert seen == [((8, 16), (3, 16), torch.float16, None)]


@pytest.mark.parametrize(
    ("layout", "strides"), [("contiguous", (64, 1)), ("transposed", (1, 48)), ("strided", (128, 1))]
)
def test_a_weight_has_the_layout_that_is_asked_for(
    ask: Callable[..., Any], layout: str, strides: tuple[int, int]
) -> None:
    seen = []

    def apply(layer: Any, x: Any, bias: Any) -> Any:
        seen.append((layer.weight.stride(), tuple(bias.shape), tuple(x.shape)))
        return _linear(layer, x, bias)

    scheme = {**BF16, "layout": layout, "bias": True, "batched": True, "tokens": 2}
    assert ask(apply, scheme).findings == ()
    assert seen == [(strides, (48,), (1, 2, 64))]


def test_a_layer_that_changes_the_dtype_is_a_finding(ask: Callable[..., Any]) -> None:
    decision = ask(lambda layer, x, bias: _linear(layer, x, bias).float())
    assert [finding.message for finding in decision.findings] == [
        "the layer gives torch.float32 for activations of torch.bfloat16"
    ]
    assert decision.findings[0].symbol == "rocm_unquantized_gemm_impl"


def test_a_layer_that_loses_a_dimension_is_a_finding(ask: Callable[..., Any]) -> None:
    decision = ask(lambda layer, x, bias: _linear(layer, x, bias)[0], {**BF16, "tokens": 4})
    assert [finding.message for finding in decision.findings] == ["the layer gives (48,) for activations of (4, 64)"]


def _through_aiter(layer: Any, x: Any, bias: Any) -> Any:
    from aiter.ops.triton.gemm_a16w16 import gemm_a16w16  # type: ignore[import-not-found]

    return gemm_a16w16(x, layer.weight, bias)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package ``aiter`` is there, as the stand-in of a simulated target is."""
    monkeypatch.setitem(sys.modules, "aiter", types.ModuleType("aiter"))
    spec = types.SimpleNamespace(origin=None)
    monkeypatch.setattr(unquantized.importlib.util, "find_spec", lambda name: spec if name == "aiter" else None)


@pytest.mark.parametrize(
    ("scheme", "fault"),
    [
        ({"dtype": "bfloat16"}, None),
        ({"dtype": "float16"}, "the layer gives torch.bfloat16 for activations of torch.float16"),
        ({"dtype": "bfloat16", "batched": True}, "aiter.gemm_a16w16 takes a matrix [M, K]"),
    ],
)
def test_aiters_gemm_is_held_to_what_it_takes_and_gives(
    ask: Callable[..., Any], stand_in: None, scheme: Mapping[str, Any], fault: str | None
) -> None:
    decision = ask(_through_aiter, scheme)
    assert decision.chosen == "aiter.gemm_a16w16"
    assert [fault in finding.message for finding in decision.findings] == ([True] if fault else [])
    assert "aiter.ops.triton.gemm_a16w16" not in sys.modules


def test_without_aiter_an_import_of_it_fails_as_it_would(ask: Callable[..., Any]) -> None:
    decision = ask(_through_aiter)
    assert decision.ended is Ended.RAISED
    assert "ModuleNotFoundError" in decision.detail


def test_an_operator_that_the_build_lacks_is_the_subjects_fault(ask: Callable[..., Any]) -> None:
    decision = ask(lambda layer, x, bias: torch.ops._rocm_C.gfxloop_not_built(layer.weight, x))
    assert decision.ended is Ended.RAISED
    assert "gfxloop_not_built" in decision.detail


def test_the_batch_invariant_kernel_is_noted_and_not_run(ask: Callable[..., Any]) -> None:
    def never(x: Any, weight: Any, bias: Any) -> Any:
        raise AssertionError("device code")

    def apply(layer: Any, x: Any, bias: Any) -> Any:
        return sys.modules["vllm.model_executor.layers.linear"].linear_batch_invariant(x, layer.weight, bias)

    assert ask(apply, linear_batch_invariant=never).chosen == "linear_batch_invariant"


def test_a_release_without_the_dispatch_says_so(stand_modules: Stand, make_cell: Callable[..., Cell]) -> None:
    layers = "vllm.model_executor.layers"
    stand_modules({f"{layers}.linear": {}, f"{layers}.utils": {}})
    cell = make_cell("gemm", surface=Surface.UNQUANTIZED_GEMM, layer=LAYER, scheme=BF16)
    assert decide_unquantized(cell).ended is Ended.UNSUPPORTED


def test_a_real_release_sends_few_tokens_to_the_skinny_kernel_and_obeys_its_switch(
    routed: Callable[..., Any],
) -> None:
    records = routed(
        "0.33.0",
        {"targets": ["gfx942/MI300X", "gfx1250"], "environments": ["aiter_off"], "kernels": ["gemm_points"]},
        {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"], "kernels": ["gemm_shapes_no_skinny"]},
    )
    chosen = {record.id.partition("unquantized_gemm/")[2]: record.chosen for record in records.values()}
    assert chosen["gfx942.MI300X/aiter_off/decode_4"] == "wvSplitK"
    assert chosen["gfx1250/aiter_off/decode_4"] == "linear"
    assert chosen["gfx942.MI300X/aiter_off/head_dsv3_no_skinny"] == "linear"
