"""Whole models of a real release: the matrix's typed-in shapes are those of vLLM's own layers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bundled import fixtures_dir
from harness.matrix import Matrix, layers_of
from harness.model.cell import Cell, Kernel, Surface, Tier
from harness.model.record import Ended
from harness.model.whole import ModuleKind, ModuleRoute, WholeModel
from harness.probes.engine import Engine
from harness.probes.whole import differences
from harness.subjects import Located
from harness.targets.facts import TARGETS
from harness.targets.pool import Limits

CONFIGS = {"qwen3-235b-a22b": "qwen3-235b-a22b-fp8"}
"""Model of the matrix -> folder of its configuration, where the names differ."""

MODULES = {
    "qkv": r"\.qkv_proj",
    "o": r"\.o_proj",
    "q_b": r"\.q_b_proj",
    "kv_b": r"\.kv_b_proj",
    "fused_qkv_a": r"\.fused_qkv_a_proj",
    "gate_up": r"\.mlp\.gate_up_proj",
    "down": r"\.mlp\.down_proj",
    "shared_gate_up": r"\.shared_experts\.gate_up_proj",
    "shared_down": r"\.shared_experts\.down_proj",
}
"""Layer of the matrix -> the module that is it."""

FUSED = {"q_a": "fused_qkv_a", "kv_a": "fused_qkv_a"}
"""Layers that vLLM holds in one with others: their rows add up."""


def route(**changes: object) -> ModuleRoute:
    plain = ModuleRoute(name="layers.0.qkv", count=1, kind=ModuleKind.LINEAR, module="M", method="", kernel="A")
    return plain.model_copy(update=changes)


def answered(*modules: ModuleRoute) -> WholeModel:
    return WholeModel(ended=Ended.ANSWERED, chosen="Model", modules=modules)


def cell_of(folder: str, tp: int) -> Cell:
    text = (fixtures_dir() / "models" / folder / "config.json").read_text(encoding="utf-8")
    scheme: dict[str, str | int | bool] = {"config": text, "tp": tp, "ep": False, "passes": False}
    kernel = Kernel(f"{folder}.tp{tp}", Surface.WHOLE_MODEL, "whole", scheme)
    return Cell(Tier.ROUTE, TARGETS["gfx942/MI300X"], "env", {"VLLM_ROCM_USE_AITER": "0"}, kernel)


@pytest.fixture(scope="module")
def built(matrix: Matrix, located: Callable[..., Located]) -> dict[tuple[str, int], WholeModel]:
    """Every model of the matrix at each of its tensor-parallel sizes, in one worker."""
    plain = located()
    packages = {"flash_attn": True}  # without it DeepSeek-V3 has no prefill backend where AITER is off
    found = replace(plain, subject=plain.subject.model_copy(update={"packages": packages}))
    cells = {
        (name, tp): cell_of(CONFIGS.get(name, name), tp) for name, model in matrix.models.items() for tp in model.tps
    }
    seen: dict[str, WholeModel] = {}
    engine = Engine(found, None, workers=1, probe="harness.probes.whole", limits=Limits(cell_s=300))

    def report(cell: Cell, one: object) -> None:
        assert isinstance(one, WholeModel), one
        seen[cell.id] = one

    engine.observe(list(cells.values()), report)
    return {key: seen[cell.id] for key, cell in cells.items()}


def test_the_matrix_s_shapes_are_those_of_vllm_s_own_layers(
    built: dict[tuple[str, int], WholeModel], matrix: Matrix
) -> None:
    wrong = []
    for (name, tp), model in built.items():
        assert model.ended is Ended.ANSWERED, (name, model.detail)
        layers = {layer.name: (layer.n, layer.k) for layer in layers_of(matrix.models[name], tp)}
        for layer, shape in layers.items():
            if layer not in FUSED:
                shapes = {m.shape for m in model.modules if re.search(MODULES[layer] + "$", m.name)}
                wrong += [(name, tp, layer, shape, shapes)] if shapes != {shape} else []
        for whole in set(FUSED.values()) & set(layers):
            rows = [layers[part] for part, of in FUSED.items() if of == whole]
            assert (sum(n for n, _ in rows), rows[0][1]) == layers[whole]
    assert wrong == []


def test_every_linear_layer_names_its_kernel_and_every_layer_its_count(
    built: dict[tuple[str, int], WholeModel],
) -> None:
    for model in built.values():
        assert all(one.kernel for one in model.modules if one.kind is not ModuleKind.EMBEDDING)
    deepseek = {one.name: one for one in built["deepseek-v3", 8].modules}
    experts = deepseek["model.layers.3-60.mlp.experts.routed_experts"]
    assert (experts.count, experts.choices["backend"], experts.kernel) == (58, "TRITON", "TritonExperts")
    attention = deepseek["model.layers.0-60.self_attn.mla_attn.mla_attn"]
    assert (attention.kernel, attention.choices["prefill"]) == ("TritonMLABackend", "FlashAttnPrefillBackend")


def test_layers_that_hang_on_what_was_assumed_are_named_with_both_answers() -> None:
    assert differences(answered(route()), answered(route())) == ()
    assert differences(answered(route()), answered(route(kernel="B"))) == ("layers.0.qkv: A if so; B if not",)
    assert differences(answered(route()), answered()) == ("layers.0.qkv: A if so; not there if not",)


def test_a_refusal_under_the_other_assumption_is_a_difference_and_a_break_is_none() -> None:
    refused = WholeModel(ended=Ended.REFUSED, detail="no backend")
    assert differences(answered(route()), refused) == ("Model if so; no backend if not",)
    assert differences(answered(route()), WholeModel(ended=Ended.RAISED, detail="ImportError")) == ()


def test_every_configuration_has_a_source() -> None:
    folder = fixtures_dir() / "models"
    listed = set(re.findall(r"^\| `([^`]+)` \|", (folder / "SOURCES.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {path.parent.name for path in Path(folder).glob("*/config.json")}
