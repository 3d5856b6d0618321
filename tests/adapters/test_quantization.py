from __future__ import annotations

import os
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.adapters.quantization import _CHECKPOINTS, decide_quantization
from harness.matrix import Matrix
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record

Ask = Callable[..., Any]
PACKAGE = "vllm.model_executor.layers.quantization"


class Config:
    """As a ``QuantizationConfig``: one method needs an object."""

    def get_supported_act_dtypes(self) -> list[Any]:
        return [torch.float16, torch.bfloat16]

    @classmethod
    def get_min_capability(cls) -> int:
        return 89


class Platform:
    supported_quantization = ("fp8", "gptq")

    def __init__(self, capability: int | None) -> None:
        self.capability = capability

    def get_device_capability(self) -> Any:
        return None if self.capability is None else types.SimpleNamespace(to_int=lambda: self.capability)

    def verify_quantization(self, name: str) -> None:
        os.environ["VLLM_SET_ON_THE_WAY"] = name
        if name == "broken":
            raise AttributeError("no such thing")
        if name not in self.supported_quantization:
            raise ValueError(f"{name} quantization is currently not supported in rocm.")


class ModelConfig:
    """As vLLM's: the checkpoint's method, unless the user chose another."""

    quantization: str | None
    model_arch_config: Any

    def _verify_quantization(self) -> None:
        stated = self.model_arch_config.quantization_config["quant_method"]
        if self.quantization not in (None, stated):
            raise ValueError(f"Quantization method specified in the model config ({stated}) does not match")
        self.quantization = stated


@pytest.fixture
def ask(stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None], make_cell: Callable[..., Cell]) -> Ask:
    def decide(name: str, capability: int | None = 94, **scheme: str) -> Any:
        known = ["fp8", "gptq", "other", "broken"]
        stand_modules(
            {
                PACKAGE: {"QUANTIZATION_METHODS": known, "get_quantization_config": lambda _name: Config},
                "vllm.platforms": {"current_platform": Platform(capability)},
                "vllm.config.model": {"ModelConfig": ModelConfig},
            }
        )
        return decide_quantization(make_cell(name, surface=Surface.QUANTIZATION, scheme=scheme))

    return decide


def test_a_method_is_accepted_or_refused_in_the_platform_s_words(ask: Ask) -> None:
    assert ask("fp8").chosen == "accepted"
    refused = ask("other")
    assert (refused.ended, refused.chosen) == (Ended.ANSWERED, "refused")
    assert refused.candidates[0].reason == "other quantization is currently not supported in rocm."
    assert refused.evidence[0].answer == "False"


def test_anything_but_a_refusal_is_an_observation(ask: Ask) -> None:
    assert ask("broken").ended is Ended.RAISED


def test_a_method_that_the_release_does_not_know_is_unsupported(ask: Ask) -> None:
    for name in ("of_the_future", "config.of_the_future"):
        assert ask(name).detail == "this vLLM has no quantization method of_the_future"


def test_variables_that_vllm_sets_on_the_way_are_put_back(ask: Ask) -> None:
    ask("fp8")
    assert "VLLM_SET_ON_THE_WAY" not in os.environ


@pytest.mark.parametrize(
    ("capability", "words"),
    [
        (94, "Config: capability 94 >= 89; bfloat16, float16"),
        (80, "Config: capability 80 < 89; bfloat16, float16"),
        (None, "Config: least capability 89, not asked; bfloat16, float16"),
    ],
)
def test_a_configuration_is_held_against_the_device_as_vllm_does(ask: Ask, capability: int, words: str) -> None:
    assert ask("config.fp8", capability).chosen == words


def test_a_checkpoint_gets_its_method_or_a_refusal(ask: Ask) -> None:
    assert ask("checkpoint.gptq").chosen == "gptq"
    refused = ask("checkpoint.fp8_as_gptq", checkpoint="fp8", choice="gptq")
    assert (refused.ended, refused.chosen) == (Ended.REFUSED, None)
    assert refused.detail.endswith("(fp8) does not match")


# ---- the matrix, and real vLLM


def test_every_checkpoint_is_asked_for_and_every_one_asked_for_is_known(matrix: Matrix) -> None:
    kernels = {cell.kernel.name: cell.kernel for cell in matrix.cells if cell.kernel.surface is Surface.QUANTIZATION}
    asked = {
        str(kernel.scheme.get("checkpoint", name.removeprefix("checkpoint.")))
        for name, kernel in kernels.items()
        if name.startswith("checkpoint.")
    }
    assert asked == set(_CHECKPOINTS)


def test_every_method_of_the_default_release_is_in_the_matrix(matrix: Matrix, vllm_tree: Path) -> None:
    text = (vllm_tree / "vllm" / "model_executor" / "layers" / "quantization" / "__init__.py").read_text()
    held = text.partition("QuantizationMethods = Literal[")[2].partition("]")[0]
    names = set(held.split('"')[1::2])
    asked = {cell.kernel.name for cell in matrix.cells if cell.kernel.surface is Surface.QUANTIZATION}
    assert len(names) > 20
    assert not {name for name in names if not {name, f"config.{name}"} <= asked}


def test_rocm_reads_a_gptq_checkpoint_and_refuses_what_it_has_no_kernel_for(
    routed: Callable[..., dict[str, Record]],
) -> None:
    kernels = ["checkpoint.gptq", "config.fp8", "fp_quant"]
    found = routed("0.33.0", {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"], "kernels": kernels})
    assert {record.kernel: record.chosen for record in found.values()} == {
        "checkpoint.gptq": "auto_gptq",
        "config.fp8": "Fp8Config: capability 94 >= 75; bfloat16, float16",
        "fp_quant": "refused",
    }
