from __future__ import annotations

import ast
import enum
import os
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.adapters import defaults
from harness.adapters.decision import Missing
from harness.adapters.defaults import decide_default
from harness.matrix import Matrix
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Outcome, Record

Ask = Callable[..., Any]


class Kind(enum.Enum):
    X86 = 1


class Platform:
    """As vLLM's: an unknown name is None, not an error."""

    dist_backend = "nccl"

    def __getattr__(self, name: str) -> None: ...

    @classmethod
    def get_cpu_architecture(cls) -> Kind:
        return Kind.X86

    @classmethod
    def has_device_capability(cls, number: int) -> bool:
        return number <= 94

    @classmethod
    def check_if_supports_dtype(cls, dtype: Any) -> None:
        if dtype is torch.bfloat16:
            raise ValueError("Bfloat16 is only supported from 8.0")

    @classmethod
    def is_fully_connected(cls, devices: list[int]) -> bool:
        return devices == [0, 1]

    @classmethod
    def get_punica_wrapper(cls) -> str:
        raise NotImplementedError

    @classmethod
    def broken(cls) -> str:
        raise AttributeError("no such thing")

    @classmethod
    def device_id_to_physical_device_id(cls, rank: int) -> int:
        names = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
        return int(names[rank])


class Validation(ValueError):
    def errors(self) -> list[dict[str, str]]:
        return [{"msg": "Value error, no such run"}]


@pytest.fixture
def ask(
    stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> Ask:
    def configured(run: str) -> Any:
        if run == "refused":
            raise Validation("1 validation error for VllmConfig, with this machine's paths")
        if run == "modelless":
            return VllmConfig.post_init(None)
        section = types.SimpleNamespace(mode=Kind.X86, ops=["+a"], level=run)
        return types.SimpleNamespace(compilation_config=section)

    def decide(name: str, **scheme: str) -> Any:
        stand_modules({"vllm.platforms": {"current_platform": Platform()}})
        monkeypatch.setattr(defaults, "configured", configured)
        monkeypatch.setattr(defaults, "differing", lambda one, base: vars(one) if one != base else {})
        monkeypatch.setattr(defaults, "untouched", lambda _section: None)
        monkeypatch.setattr(defaults, "with_model", lambda name: types.SimpleNamespace(indexer=name))
        return decide_default(make_cell(name, surface=Surface.DEFAULTS, scheme=scheme))

    return decide


def _of_vllm() -> Any:
    """A class whose code stands in a file of vLLM's, as far as a traceback can tell."""
    text = "class VllmConfig:\n    @staticmethod\n    def post_init(model):\n        return model.dtype\n"
    made: dict[str, Any] = {}
    exec(compile(text, "/x/vllm/config/vllm.py", "exec"), made)
    return made["VllmConfig"]


VllmConfig = _of_vllm()


@pytest.mark.parametrize(
    ("name", "value", "symbol"),
    [
        ("dist_backend", "nccl", "dist_backend"),
        ("get_cpu_architecture", "X86", "Platform.get_cpu_architecture"),
        ("has_device_capability.95", "False", "Platform.has_device_capability"),
        ("check_if_supports_dtype.torch.float16", "None", "Platform.check_if_supports_dtype"),
    ],
)
def test_a_member_is_its_value_or_the_answer_to_its_argument(ask: Ask, name: str, value: str, symbol: str) -> None:
    decision = ask(name)
    assert (decision.ended, decision.chosen, decision.symbol) == (Ended.ANSWERED, value, symbol)


def test_arguments_that_are_no_name_stand_in_the_scheme(ask: Ask) -> None:
    assert ask("is_fully_connected", args="[0,1]").chosen == "True"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("check_if_supports_dtype.torch.bfloat16", "Bfloat16 is only supported from 8.0"),
        ("run.refused", "Value error, no such run"),
    ],
)
def test_a_refusal_is_told_in_vllm_s_own_words(ask: Ask, name: str, words: str) -> None:
    decision = ask(name)
    assert (decision.ended, decision.chosen, decision.detail) == (Ended.REFUSED, None, words)


def test_a_member_that_is_not_implemented_says_so(ask: Ask) -> None:
    assert ask("get_punica_wrapper").detail.endswith("is not implemented")


def test_anything_but_a_refusal_is_an_observation(ask: Ask) -> None:
    assert ask("broken").ended is Ended.RAISED


@pytest.mark.parametrize("name", ["of_the_future", "field.compilation_config.gone", "section.gone_config"])
def test_what_the_release_lacks_is_unsupported_and_never_none(ask: Ask, name: str) -> None:
    assert ask(name).ended is Ended.UNSUPPORTED


def test_a_field_a_section_and_a_run_are_lines_in_which_every_change_shows(ask: Ask) -> None:
    assert ask("field.compilation_config.mode").chosen == "X86"
    section = ask("section.compilation_config")
    assert section.chosen == "mode=X86; ops=[+a]; level=default"
    assert [item.question for item in section.evidence] == ["mode", "ops", "level"]
    assert ask("run.default").chosen == "(none)"
    assert ask("model.deepseek_v4").chosen == "indexer=deepseek_v4"


def test_a_configuration_that_needs_a_model_is_undecided_and_no_fault(ask: Ask) -> None:
    decision = ask("run.modelless")
    assert decision.ended is Ended.INDETERMINATE
    assert "'NoneType' object has no attribute 'dtype'" in decision.detail


def test_ranks_get_the_devices_that_are_visible(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in defaults._VISIBLE:
        monkeypatch.delenv(name, raising=False)
    assert ask("visible.none").chosen == "0 -> 0, 1 -> 1; none set"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert ask("visible.cuda").chosen == "0 -> 3, 1 -> 1; CUDA_VISIBLE_DEVICES=3,1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert ask("visible.one").ended is Ended.REFUSED


def test_variables_are_levelled_as_importing_the_platform_does_and_put_back(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def level() -> None:
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"]

    monkeypatch.setitem(globals(), "_sync_hip_cuda_env_vars", level)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "5,4")
    assert ask("visible.hip").chosen == "0 -> 5, 1 -> 4; CUDA_VISIBLE_DEVICES=5,4, HIP_VISIBLE_DEVICES=5,4"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_batch_sizes_are_told_by_usage(
    ask: Ask, stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None]
) -> None:
    arguments = types.SimpleNamespace(get_batch_defaults=lambda ranks: ({Kind.X86: ranks * 8}, {Kind.X86: 4}))
    stand_modules({"vllm.engine.arg_utils": {"EngineArgs": arguments}})
    assert ask("batch.2").chosen == "tokens X86=16; sequences X86=4"


def test_an_all_reduce_kernel_is_asked_by_ranks_and_dtype(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(defaults._ASKS, "quick_reduce", lambda rest: defaults._reduce(_sizes, rest))
    assert ask("quick_reduce.8.bfloat16.INT4").chosen == "8 ranks of bfloat16"
    assert ask("quick_reduce.3.bfloat16").ended is Ended.UNSUPPORTED


def _sizes(ranks: int, dtype: str) -> tuple[str, str]:
    if ranks == 3:
        raise Missing("three ranks")
    return f"{ranks} ranks of {dtype}", "symbol"


# ---- the matrix, and real vLLM

NOT_ASKED = {
    "device_count": "what is attached, which a simulation does not have",
    "discover_numa_topology": "of this machine",
    "get_all_device_numa_nodes": "of this machine",
    "get_all_gpu_pci_bus_ids": "of this machine",
    "get_cuda_runtime_major": "of the installed CUDA",
    "get_current_memory_usage": "of a real device",
    "get_device_numa_node": "of this machine",
    "get_global_graph_pool": "makes a pool on the device",
    "import_ir_kernels": "imports",
    "import_kernels": "imports",
    "inference_mode": "a context manager",
    "is_cumem_allocator_available": "of a compiled module",
    "is_integrated_gpu": "of a real device",
    "log_warnings": "logs",
    "pre_register_and_update": "sets variables; surface import_effect",
    "register_triton_kernel_overrides": "changes Triton",
}
"""Members of the platform without arguments that no cell asks for, and why."""


def test_every_member_of_the_platform_without_arguments_is_in_the_matrix_or_left_out_for_a_reason(
    matrix: Matrix, vllm_tree: Path
) -> None:
    asked = {cell.kernel.name for cell in matrix.cells if cell.kernel.surface in (Surface.DEFAULTS, Surface.PLATFORM)}
    members = {name for name in _members(vllm_tree / "vllm" / "platforms") if not name.startswith("_")}
    assert len(members) > 50
    assert members - asked - set(NOT_ASKED) == set()


def _members(folder: Path) -> Iterator[str]:
    for name in ("interface", "rocm", "cuda", "xpu", "cpu"):
        for kind in ast.parse((folder / f"{name}.py").read_text()).body:
            if isinstance(kind, ast.ClassDef) and kind.name.endswith(("Platform", "PlatformBase")):
                yield from filter(None, map(_member, kind.body))


def _member(node: ast.stmt) -> str | None:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if not isinstance(node, ast.FunctionDef):
        return None
    given = node.args
    free = len(given.args) - len(given.defaults) <= 1 and not given.vararg and not node.name.startswith("__")
    return node.name if free else None


def test_the_default_release_answers_for_mi300(routed: Callable[..., dict[str, Record]]) -> None:
    kernels = ["run.pcp2", "visible.hip", "quick_reduce.8.bfloat16.INT4", "field.parallel_config.worker_cls"]
    found = routed("0.33.0", {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"], "kernels": kernels})
    assert {record.outcome for record in found.values()} == {Outcome.PASSED}
    chosen = {record.kernel: record.chosen for record in found.values()}
    assert chosen["quick_reduce.8.bfloat16.INT4"] == "2 MB to 2048 MB"
    assert chosen["visible.hip"] == "0 -> 3, 1 -> 1; CUDA_VISIBLE_DEVICES=3,1, HIP_VISIBLE_DEVICES=3,1"
    assert "compilation_config.cudagraph_mode=PIECEWISE" in str(chosen["run.pcp2"])
