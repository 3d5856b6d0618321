from __future__ import annotations

from pathlib import Path

import pytest

from harness.targets.build import declared_build
from harness.targets.facts import TARGETS
from harness.targets.queries import NAMESPACES, queries_of

CAPABILITIES = (75, 80, 89, 90, 100, 120, 130)


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("cutlass_scaled_mm_supports_fp8", [89, 90, 100, 120, 130]),
        ("cutlass_scaled_mm_supports_block_fp8", [90, 100, 120, 130]),
        ("cutlass_group_gemm_supported", [90, 100]),
        ("cutlass_scaled_mm_supports_fp4", [100, 120]),
    ],
)
def test_a_cuda_build_answers_by_compute_capability(name: str, accepted: list[int]) -> None:
    query = queries_of(TARGETS["sm90/H100"])[name]
    assert [capability for capability in CAPABILITIES if query(capability)] == accepted


def test_the_declared_cpu_has_no_fp8() -> None:
    assert queries_of(TARGETS["cpu"])["cpu_has_amx_fp8"]() is False


def test_a_rocm_build_tells_of_its_all_reduce_kernels() -> None:
    queries = queries_of(TARGETS["gfx942/MI300X"])
    assert queries["qr_max_size"]() == 2**31
    assert queries["meta_size"]() > 0


@pytest.mark.parametrize("name", ["xpu", "none"])
def test_no_other_build_answers_a_query(name: str) -> None:
    assert queries_of(TARGETS[name]) == {}


@pytest.mark.parametrize("name", ["gfx942/MI300X", "sm90/H100", "cpu"])
def test_every_query_is_an_operator_of_the_real_build(vllm_tree: Path, name: str) -> None:
    declared = declared_build(vllm_tree, TARGETS[name]).schemas
    names = {schema.partition("(")[0] for space, schema in declared if space in NAMESPACES}
    assert set(queries_of(TARGETS[name])) <= names
