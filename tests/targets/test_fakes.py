from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.subjects import Located
from harness.targets.build import DeclaredBuild, declared_build, register
from harness.targets.facts import TARGETS
from harness.targets.fakes import are_meta, rule_of
from harness.targets.journal import Journal, SimulationLimit

SPACE = "gfxloop_fakes"


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def operators(journal: Journal) -> Iterator[Any]:
    schemas = (
        "silu_and_mul(Tensor! out, Tensor input) -> ()",
        "mystery(Tensor input) -> Tensor",
        "overridden(Tensor input) -> Tensor",
        "init(int n) -> ()",
    )
    libraries: list[Any] = register(DeclaredBuild(tuple((SPACE, schema) for schema in schemas)), {}, journal)
    yield getattr(torch.ops, SPACE)
    for library in libraries:
        library._destroy()


def test_an_operator_without_a_result_gives_nothing_on_meta_tensors(operators: Any, journal: Journal) -> None:
    assert operators.silu_and_mul(meta(2, 4), meta(2, 8)) is None
    assert journal == Journal()


def test_a_real_call_is_still_an_error_that_names_the_operator(operators: Any, journal: Journal) -> None:
    with pytest.raises(SimulationLimit, match=f"operator {SPACE}::silu_and_mul"):
        operators.silu_and_mul(torch.zeros(2, 4), torch.zeros(2, 8))
    assert journal.unanswerable == [f"what operator {SPACE}::silu_and_mul does"]


def test_a_call_without_any_tensor_is_a_real_call(operators: Any) -> None:
    with pytest.raises(SimulationLimit, match=f"operator {SPACE}::init"):
        operators.init(1)


def test_an_operator_without_a_rule_stops_a_meta_forward_and_is_named(operators: Any, journal: Journal) -> None:
    with pytest.raises(SimulationLimit, match=f"operator {SPACE}::mystery"):
        operators.mystery(meta(2))
    assert journal.unanswerable == [f"what operator {SPACE}::mystery does (there is no rule for its shapes)"]


def test_a_fake_that_the_subject_registers_comes_first(operators: Any) -> None:
    torch.library.register_fake(f"{SPACE}::overridden", lambda x: x.new_empty(7))
    assert operators.overridden(meta(2)).shape == (7,)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [((meta(1),), True), (([meta(1)],), True), ((torch.zeros(1), meta(1)), True), ((torch.zeros(1), 2), False)],
)
def test_one_meta_tensor_makes_a_meta_call(arguments: tuple[object, ...], found: bool) -> None:
    assert are_meta(arguments, {}) is found
    assert are_meta((), {"x": arguments[0]}) is (found and arguments[0] is not None and len(arguments) == 1)


X, WEIGHT = meta(3, 64), meta(48, 64)


@pytest.mark.parametrize(
    ("operator", "arguments", "shape", "dtype"),
    [
        ("_rocm_C::LLMM1", (WEIGHT, X, 4), (3, 48), torch.bfloat16),
        ("_rocm_C::wvSplitK", (WEIGHT, X, None, 304), (3, 48), torch.bfloat16),
        ("_rocm_C::wvSplitKrc", (X, WEIGHT, None, 256), (3, 48), torch.bfloat16),
        ("_rocm_C::wvSplitK_int4_g", (meta(48, 32), X, X, None, None, 1, 128), (3, 48), torch.bfloat16),
        ("_rocm_C::gptq_gemm_rdna3", (X, meta(8, 48), X, X, False), (3, 48), torch.bfloat16),
        ("_rocm_C::mxfp4_w4a8_gemv_rdna3", (X, meta(48, 32), X), (3, 48), torch.bfloat16),
        ("_C::gptq_gemm", (X, meta(8, 48), X, X, True, False, 4), (3, 48), torch.bfloat16),
        ("_C::weak_ref_tensor", (X,), (3, 64), torch.bfloat16),
        ("_moe_C::router_gemm_bf16_fp32", (X, WEIGHT), (3, 48), torch.float32),
        ("_C::convert_weight_packed", (WEIGHT,), (48, 64), torch.bfloat16),
        ("_C::convert_weight_packed", (meta(8, 64),), (64, 8), torch.float32),
    ],
)
def test_a_gemm_gives_tokens_by_outputs(
    operator: str, arguments: tuple[object, ...], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    namespace, _, name = operator.partition("::")
    rule = rule_of(namespace, f"{name}(Tensor a) -> Tensor")
    assert rule is not None
    out = rule(*arguments)
    assert (tuple(out.shape), out.dtype, out.device.type) == (shape, dtype, "meta")


def test_the_padded_query_has_the_padded_heads_or_nothing() -> None:
    rule = rule_of("_C", "fused_deepseek_v4_qnorm_rope_kv_rope_quant_insert(Tensor q_in) -> Tensor")
    assert rule is not None
    rest = (None, None, None, None, None)
    assert rule(meta(3, 16, 128), *rest, 64, 1e-6, 64).shape == (3, 64, 128)
    assert rule(meta(3, 16, 128), *rest, 0, 1e-6, 64).shape == (0,)


DEVICE_AND_HANDLES = re.compile(
    r"^_C_custom_ar::|^_C_cuda_utils::|::get_cuda_view_from_cpu_tensor$|::ggml_moe_get_block_size$"
)
"""What answers for the device or keeps a handle of it: no model's forward pass reaches one."""


@pytest.mark.parametrize("version", ["0.28.0", "0.33.0"])
def test_every_operator_of_a_rocm_build_has_a_rule_or_a_fake_of_vllms_own(
    located: Callable[..., Located], version: str
) -> None:
    tree: Path = located(version).tree
    own = set(re.findall(r'register_fake\("([^"]+)"', (tree / "vllm" / "_custom_ops.py").read_text()))
    for name in ("gfx942/MI300X", "gfx950/MI350X", "gfx1100/RX7900XTX", "gfx1250"):
        build = declared_build(tree, TARGETS[name])
        without = {
            f"{space}::{schema.partition('(')[0]}" for space, schema in build.schemas if not rule_of(space, schema)
        }
        assert {one for one in without - own if not DEVICE_AND_HANDLES.search(one)} == set()
