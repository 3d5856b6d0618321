from __future__ import annotations

import os
import re
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.adapters import switch
from harness.adapters.switch import decide_switch
from harness.matrix import Matrix
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Outcome, Record

Ask = Callable[..., Any]
VARIABLE = "VLLM_ROCM_USE_AITER_MHA"


class Operations:
    """As ``rocm_aiter_ops``: one gate obeys its variable, one does not, one asks the package, one takes arguments."""

    @classmethod
    def refresh_env_variables(cls) -> None: ...

    @classmethod
    def is_mha_enabled(cls) -> bool | None:
        return os.environ.get(VARIABLE, "1") == "1"

    @classmethod
    def is_deaf_enabled(cls) -> bool:
        return True

    @classmethod
    def is_rdna_linear_enabled(cls) -> bool:
        return os.environ.get(VARIABLE) != "0"

    @classmethod
    def is_kernel_available(cls) -> bool:
        raise AssertionError("it asks the package")

    @classmethod
    def is_tuned(cls, n: int) -> bool:
        raise AssertionError("it takes an argument")

    @classmethod
    def get_moe_dispatch_policy(cls) -> int:
        return int(os.environ.get("POLICY", "0"))

    @classmethod
    def is_broken(cls) -> bool:
        raise RuntimeError("no device")


class Envs(types.ModuleType):
    environment_variables: Mapping[str, object] = {VARIABLE: None, "POLICY": None}

    def __getattr__(self, name: str) -> Any:
        return os.environ.get(name, "on by default")


@pytest.fixture
def ask(
    stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> Ask:
    def configured(_run: str) -> Any:
        ops = ["+quant"] if os.environ.get(VARIABLE) != "0" else []
        sections = {"compilation_config": {"custom_ops": ops}, "kernel_config": {"ir_op_priority": "native"}}
        return types.SimpleNamespace(**{name: types.SimpleNamespace(**held) for name, held in sections.items()})

    def decide(name: str, *, without: tuple[str, ...] = ("is_broken",), **scheme: str) -> Any:
        held = {key: value for key, value in vars(Operations).items() if key not in without}
        operations = type("Operations", (), {**held, "__dict__": {}, "__weakref__": None})
        ranked = lambda mla, _sparse: ["MHA"] if os.environ.get(VARIABLE) != "0" and not mla else []  # noqa: E731
        envs = Envs("vllm.envs")
        stand_modules(
            {
                "vllm": {"envs": envs},
                "vllm.envs": {"environment_variables": envs.environment_variables},
                "vllm._aiter_ops": {"rocm_aiter_ops": operations},
                "vllm.platforms.rocm": {"_get_backend_priorities": ranked},
            }
        )
        monkeypatch.setattr(switch, "configured", configured)
        monkeypatch.delenv(VARIABLE, raising=False)
        monkeypatch.delenv("POLICY", raising=False)
        return decide_switch(make_cell(name, surface=Surface.SWITCH, scheme=scheme))

    return decide


def test_what_a_variable_moves_is_told_for_each_value(ask: Ask) -> None:
    decision = ask(VARIABLE)
    off = "is_mha_enabled=False, is_rdna_linear_enabled=False, custom_ops=[], attention backends=[]"
    assert (decision.ended, decision.chosen) == (Ended.ANSWERED, f"0: {off}; 1: (none)")
    assert decision.symbol == f"vllm.envs.{VARIABLE}"
    assert decision.evidence[0].answer == "False, before True"


def test_the_gates_of_ck_kernels_are_watched_alone(ask: Ask) -> None:
    assert ask(f"ck.{VARIABLE}").chosen == "0: is_mha_enabled=False; 1: (none)"


def test_values_and_readings_that_are_no_yes_or_no(ask: Ask) -> None:
    assert ask("POLICY", values="0 2").chosen == "0: (none); 2: get_moe_dispatch_policy=2"


def test_the_default_is_what_vllm_reads_without_the_variable(ask: Ask) -> None:
    assert ask(f"default.{VARIABLE}").chosen == "on by default"


@pytest.mark.parametrize(("word", "answer"), [("off", "False"), ("on", "True")])
def test_a_variable_is_put_to_its_own_gate(ask: Ask, word: str, answer: str) -> None:
    assert ask(f"{word}.{VARIABLE}", gate="is_mha_enabled").chosen == answer


def test_a_gate_that_does_not_obey_its_variable_shows(ask: Ask) -> None:
    assert ask(f"off.{VARIABLE}", gate="is_deaf_enabled").chosen == "True"


@pytest.mark.parametrize(
    ("name", "gate", "lacking"),
    [
        ("OF_THE_FUTURE", "", "variable OF_THE_FUTURE"),
        (f"off.{VARIABLE}", "is_gone", "gate rocm_aiter_ops.is_gone"),
    ],
)
def test_what_the_release_lacks_is_unsupported(ask: Ask, name: str, gate: str, lacking: str) -> None:
    decision = ask(name, gate=gate)
    assert (decision.ended, decision.detail) == (Ended.UNSUPPORTED, f"this vLLM has no {lacking}")


def test_a_gate_that_raises_is_an_observation(ask: Ask) -> None:
    assert ask(VARIABLE, without=()).ended is Ended.RAISED


# ---- the matrix, and real vLLM


def test_every_variable_of_rocm_of_the_default_release_is_in_the_matrix_in_all_its_questions(
    matrix: Matrix, vllm_tree: Path
) -> None:
    text = (vllm_tree / "vllm" / "envs.py").read_text()
    variables = set(
        re.findall(r'^    "(VLLM_[A-Z0-9_]*(?:ROCM|AITER)[A-Z0-9_]*|VLLM_USE_TRITON_AWQ)":', text, re.MULTILINE)
    )
    asked = {cell.kernel.name for cell in matrix.cells if cell.kernel.surface is Surface.SWITCH}
    assert len(variables) > 30
    assert variables | {f"default.{name}" for name in variables} <= asked


def test_mi300_and_rdna3_are_moved_by_their_variables(routed: Callable[..., dict[str, Record]]) -> None:
    words = {"environments": ["aiter_on"], "kernels": [VARIABLE, f"off.{VARIABLE}", f"on.{VARIABLE}"]}
    found = routed("0.33.0", {"targets": ["gfx942/MI300X", "gfx1201"], **words})
    assert {record.outcome for record in found.values()} == {Outcome.PASSED}
    chosen = {(record.target, record.kernel): str(record.chosen) for record in found.values()}
    assert chosen["gfx942", VARIABLE].startswith("0: is_mha_enabled=False, attention backends=")
    assert chosen["gfx1201", VARIABLE] == "0: (none); 1: (none)"
    assert (chosen["gfx942", f"on.{VARIABLE}"], chosen["gfx1201", f"on.{VARIABLE}"]) == ("True", "False")
