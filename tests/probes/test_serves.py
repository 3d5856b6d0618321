from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from harness.model.cell import FROM_COMMANDS, Surface
from harness.probes.serves import _SERVES, surfaces_of

OLD = {"vllm/attention/*", "vllm/model_executor/layers/quantization/kernels/*"}
"""Patterns whose files only releases have that are older than the default one."""


@pytest.mark.parametrize(
    ("path", "some"),
    [
        ("vllm/model_executor/layers/fused_moe/oracle/fp8.py", {Surface.MOE, Surface.EXPERTS, Surface.MOE_ORACLE}),
        ("vllm/model_executor/kernels/linear/scaled_mm/pytorch.py", {Surface.LINEAR, Surface.LINEAR_KERNEL}),
        ("vllm/v1/attention/backends/mla/common.py", {Surface.ATTENTION, Surface.ATTENTION_BACKEND}),
        ("vllm/model_executor/layers/quantization/utils/fp8_utils.py", {Surface.GUARD, Surface.LINEAR}),
        ("vllm/platforms/rocm.py", {Surface.PLATFORM, Surface.IR_OP, Surface.IMPORT_EFFECT}),
    ],
)
def test_a_file_serves_what_all_its_patterns_say(path: str, some: set[Surface]) -> None:
    assert some <= surfaces_of(path)


@pytest.mark.parametrize("path", ["vllm/entrypoints/llm.py", "setup.py", "vllm/platforms", "tests/vllm/envs.py", ""])
def test_a_file_that_no_surface_looks_at_serves_none(path: str) -> None:
    assert surfaces_of(path) == frozenset()


def test_every_surface_of_the_matrix_is_served_by_some_file() -> None:
    served = frozenset().union(*_SERVES.values())
    assert served == set(Surface) - set(FROM_COMMANDS)


def test_every_pattern_matches_a_file_of_the_default_release(vllm_tree: Path) -> None:
    files = [path.relative_to(vllm_tree).as_posix() for path in vllm_tree.glob("vllm/**/*.py")]
    dead = {pattern for pattern in _SERVES if not any(fnmatchcase(file, pattern) for file in files)}
    assert dead <= OLD


def test_every_fault_of_the_replay_list_is_in_a_file_that_serves(replay_list: Path) -> None:
    assert [entry["file"] for entry in json.loads(replay_list.read_text()) if not surfaces_of(entry["file"])] == []
