"""What a built model's modules got, on modules that stand where vLLM's would."""

from __future__ import annotations

import enum
import types
from collections.abc import Sequence
from typing import Any

import pytest

from harness.adapters.module_routes import grouped, module_routes, route_of
from harness.model.whole import ModuleKind, ModuleRoute

torch = pytest.importorskip("torch")


class Kernel:
    __module__ = "vllm.model_executor.kernels.linear.scaled_mm.triton"


class MoeBackend(enum.Enum):
    TRITON = "triton"


class Experts:
    pass


class Method:
    def __init__(self, **held: object) -> None:
        vars(self).update(held)


def linear(rows: int = 64, columns: int = 32, *, method: object | None = None, **sizes: int) -> Any:
    module = torch.nn.Linear(columns, rows, bias=False, device="meta")
    module.quant_method = method or Method(fp8_linear=Kernel())
    vars(module).update(sizes or {"output_size_per_partition": rows, "input_size_per_partition": columns})
    return module


def named(*names: str) -> list[ModuleRoute]:
    route = route_of("name", linear())
    assert route is not None
    return [route.model_copy(update={"name": name}) for name in names]


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        ((0,), "layers.0.qkv"),
        ((0, 1, 2), "layers.0-2.qkv"),
        ((0, 1, 5), "layers.0-1,5.qkv"),
        ((0, 2, 4, 6), "layers.0,2,...,6.qkv"),
        ((0, 2, 4, 5), "layers.0,2,4-5.qkv"),
    ],
)
def test_layers_that_got_the_same_are_one_row_with_the_range_of_their_numbers(layers: Sequence[int], name: str) -> None:
    (route,) = grouped(named(*(f"layers.{layer}.qkv" for layer in layers)))
    assert (route.name, route.count) == (name, len(layers))


def test_layers_that_got_another_kernel_or_shape_are_rows_of_their_own() -> None:
    one, two, three = named("layers.0.qkv", "layers.1.qkv", "layers.2.qkv")
    rows = grouped([one, two.model_copy(update={"kernel": "Other"}), three.model_copy(update={"shape": (1, 2)})])
    assert [row.name for row in rows] == ["layers.0.qkv", "layers.1.qkv", "layers.2.qkv"]


def test_only_the_first_number_of_a_name_is_the_layer() -> None:
    rows = grouped(named("layers.0.experts.0.up", "layers.1.experts.0.up", "layers.0.experts.1.up"))
    assert [row.name for row in rows] == ["layers.0-1.experts.0.up", "layers.0.experts.1.up"]


def test_a_linear_layer_names_its_kernel_and_the_weight_of_one_rank() -> None:
    route = route_of("qkv", linear())
    assert route is not None
    assert (route.kind, route.kernel, route.method, route.shape) == (ModuleKind.LINEAR, "Kernel", "Method", (64, 32))
    assert route.weights == {"weight": "float32[64, 32]"}


def test_a_kernel_that_a_scheme_holds_counts_and_a_foreign_object_does_not() -> None:
    module = linear(method=Method(config=types.SimpleNamespace()))
    module.scheme = Method(kernel=Kernel())
    route = route_of("qkv", module)
    assert route is not None
    assert (route.kernel, route.method) == ("Kernel", "Method, Method")


def test_an_unquantized_layer_names_the_function_that_its_product_goes_to() -> None:
    def rocm_unquantized_gemm() -> None: ...

    route = route_of("qkv", linear(method=Method(_gemm_impl=rocm_unquantized_gemm)))
    assert route is not None
    assert route.kernel == "rocm_unquantized_gemm"


def test_a_layer_that_is_not_split_states_its_full_sizes() -> None:
    route = route_of("gate", linear(256, 64, output_size=256, input_size=64))
    assert route is not None
    assert route.shape == (256, 64)


def test_experts_come_with_their_backend() -> None:
    module = torch.nn.Module()
    module.quant_method = Method(moe=object(), fp8_backend=MoeBackend.TRITON, experts_cls=Experts, weight_scale="x")
    route = route_of("experts", module)
    assert route is not None
    assert (route.kind, route.kernel, route.choices) == (ModuleKind.MOE, "Experts", {"backend": "TRITON"})


def test_attention_names_its_backend_its_prefill_and_its_window() -> None:
    module = torch.nn.Module()
    vars(module).update(attn_backend=Kernel, impl=Experts(), prefill_backend=Method(), head_size=64, sliding_window=128)
    route = route_of("attn", module)
    assert route is not None
    assert (route.kind, route.kernel) == (ModuleKind.ATTENTION, "Kernel")
    assert route.choices == {"impl": "Experts", "prefill": "Method", "head_size": "64", "sliding_window": "128"}


def test_a_module_for_which_nothing_was_chosen_is_left_out() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), linear())
    assert [route.name for route in module_routes(model)] == ["1"]
