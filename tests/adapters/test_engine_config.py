from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.adapters.engine_config import MODELS, RUNS, configured, differing, shown, untouched, with_model
from harness.matrix import Matrix
from harness.model.cell import Surface

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]


class Mode(enum.Enum):
    NONE = 0
    FULL = (2, 1)


@dataclasses.dataclass
class Passes:
    fuse: bool = False


@dataclasses.dataclass
class Compilation:
    mode: Mode = Mode.FULL
    cudagraph_mode: Mode = Mode.FULL
    passes: Passes = dataclasses.field(default_factory=Passes)
    master_port: int = 0
    custom_ops: list[str] = dataclasses.field(default_factory=lambda: ["none"])


@dataclasses.dataclass
class Scheduler:
    sequences: int

    @classmethod
    def default_factory(cls) -> Scheduler:
        return cls(128)


class Platform:
    """Adds an operator to each configuration, and another for a model that is quantised."""

    @classmethod
    def apply_config_platform_defaults(cls, config: Any) -> None:
        config.compilation_config.custom_ops.append("+fast")

    @classmethod
    def check_and_update_config(cls, config: Any) -> None:
        model = config.model_config
        if model is not None and model.quantization == "fp8" and config.scheduler_config.is_multimodal_model:
            config.compilation_config.custom_ops.append("+quant")


@dataclasses.dataclass
class Whole:
    compilation_config: Compilation = dataclasses.field(default_factory=Compilation)
    model_config: Any = None
    scheduler_config: Any = dataclasses.field(default_factory=lambda: types.SimpleNamespace(is_multimodal_model=False))
    optimization_level: int = 2
    instance_id: str = "1"


@pytest.fixture
def _vllm(stand_modules: Stand) -> None:
    stand_modules(
        {
            "vllm": {"config": (config := types.SimpleNamespace(VllmConfig=Whole, CompilationConfig=Compilation))},
            "vllm.config": vars(config),
            "vllm.config.compilation": {"CompilationMode": Mode, "CUDAGraphMode": Mode},
            "vllm.platforms": {"current_platform": Platform},
        }
    )


@pytest.mark.usefixtures("_vllm")
def test_a_run_sets_its_fields_by_the_names_of_their_members() -> None:
    assert configured("default") == Whole()
    assert configured("eager").compilation_config == Compilation(Mode.NONE, Mode.NONE)
    assert configured("O0").optimization_level == 0


@pytest.mark.usefixtures("_vllm")
def test_a_model_is_shown_to_the_platform_and_taken_out_again() -> None:
    assert with_model(None).compilation_config.custom_ops == ["+fast"]
    assert with_model("dense").compilation_config.custom_ops == ["+fast"]
    quantized = with_model("quantized")
    assert quantized.compilation_config.custom_ops == ["+fast", "+quant"]
    assert (quantized.model_config, quantized.scheduler_config.is_multimodal_model) == (None, False)


def test_what_differs_is_told_by_path_without_what_is_this_machine_s() -> None:
    other = Whole(Compilation(Mode.NONE, Mode.FULL, Passes(True), 29500), instance_id="another")
    plain = dataclasses.replace(other, compilation_config=Compilation(), instance_id="1")
    assert differing(other, plain) == {"compilation_config.mode": Mode.NONE, "compilation_config.passes.fuse": True}
    assert differing(other, other) == {}


def test_an_untouched_section_is_as_vllm_makes_it_by_itself() -> None:
    assert untouched(Compilation(Mode.NONE)) == Compilation()
    assert untouched(Scheduler(7)) == Scheduler(128)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Mode.FULL, "FULL"),
        (Whole, "Whole"),
        ([Mode.NONE, 1], "[NONE, 1]"),
        ((9, 4), "[9, 4]"),
        ({"b", "a"}, "[a, b]"),
        ({"a": Mode.NONE}, "{a: NONE}"),
        (None, "None"),
    ],
)
def test_a_value_is_one_stable_line(value: Any, words: str) -> None:
    assert shown(value) == words


def test_a_long_sequence_is_shown_by_a_digest_that_tells_every_change() -> None:
    one, other = shown(list(range(20))), shown([*range(19), 99])
    assert one.startswith("20 members, digest ")
    assert one != other


def test_every_run_is_asked_for_and_every_run_asked_for_is_known(matrix: Matrix) -> None:
    names = {(cell.kernel.surface, cell.kernel.name) for cell in matrix.cells}
    runs = {name.removeprefix("run.") for surface, name in names if surface is Surface.DEFAULTS and "run." in name}
    ranked = {name.split(".")[2] for surface, name in names if surface is Surface.IR_OP and name.startswith("order.")}
    assert runs | {"default"} == set(RUNS)
    assert {f"model.{name}" for name in MODELS} <= {name for _, name in names}
    assert ranked <= set(RUNS)
