from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.adapters import moe
from harness.adapters.decision import Missing
from harness.adapters.moe import decide_moe
from harness.adapters.moe_config import KERNEL
from harness.model.cell import Cell, Surface
from harness.model.record import Category, Ended, Record

ORACLES = "vllm.model_executor.layers.fused_moe.oracle"

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]
Ask = Callable[..., Any]


class Backend(enum.Enum):
    AITER = "ROCm AITER"
    TRITON = "Triton"
    BATCHED = "Batched"


class Format(enum.Enum):
    Standard = 1
    BatchedExperts = 2


class Base:
    """An experts class as vLLM's are: what it takes is in ``takes``."""

    takes: tuple[str, ...] = ()

    @staticmethod
    def is_supported_config(cls, moe_config, weight_key, activation_key, activation_format):  # type: ignore[no-untyped-def]  # noqa: PLW0211
        if activation_key is not None and activation_key not in cls.takes:
            return False, f"kernel does not support quantization scheme {weight_key}x{activation_key}"
        config = moe_config
        return (True, None) if config.asks in cls.takes else (False, f"kernel does not support {config.asks}")

    @staticmethod
    def is_monolithic() -> bool:
        return False


class AiterExperts(Base):
    takes = ("gated",)


class TritonExperts(Base):
    takes = ("gated", "no act_and_mul MLP layer")

    @staticmethod
    def is_supported_config(cls, *arguments):  # type: ignore[no-untyped-def]  # noqa: PLW0211
        return Base.is_supported_config(cls, *arguments)


class BatchedExperts(Base):
    takes = ("batches",)


ORACLE = """
CLASSES = {Backend.AITER: AiterExperts, Backend.TRITON: TritonExperts, Backend.BATCHED: BatchedExperts}

def ask(backend, config, weight_key, activation_key):
    cls = CLASSES[backend]
    return cls.is_supported_config(cls, config, weight_key, activation_key, Format.Standard)

def select_walks(config, weight_key=None, activation_key=None):
    AVAILABLE_BACKENDS = [Backend.AITER, Backend.TRITON, Backend.BATCHED]
    for backend in AVAILABLE_BACKENDS:
        cls = CLASSES[backend]
        supported, reason = cls.is_supported_config(cls, config, weight_key, activation_key, Format.Standard)
        if supported:
            return backend, cls
    raise NotImplementedError("No MoE backend supports the deployment configuration.")

def select_forces(config):
    AVAILABLE_BACKENDS = [Backend.AITER, Backend.TRITON, Backend.BATCHED]
    backend = Backend.AITER
    supported, reason = AiterExperts.is_supported_config(AiterExperts, config, None, None, Format.Standard)
    raise ValueError(f"{backend.value} does not support the deployment configuration since {reason}.")

def select_blindly(config):
    logger.warning_once("falling back to %s", Backend.TRITON.name)
    return Backend.TRITON, TritonExperts

def select_nothing(config):
    return Backend.BATCHED, None

def select_names(config, use_ep, use_dp):
    return Backend.TRITON if use_ep and use_dp else Backend.AITER

def select_removes(config):
    [].remove(Backend.AITER)

def select_wordless(config):
    raise NotImplementedError

def select_checks(config):
    for backend in (Backend.AITER, Backend.TRITON):
        reason = _backend_incompatibility_reason(backend)
        if reason is None:
            cls = CLASSES[backend]
            cls.is_supported_config(cls, config, None, None, Format.Standard)
            return backend, cls

def _backend_incompatibility_reason(backend):
    return "zero points are not supported" if backend is Backend.AITER else None
"""
"""Oracles as vLLM writes them, to stand in a file of the subject's under the name of one."""


class Logger:
    def warning_once(self, msg: str, *args: object) -> None: ...


@pytest.fixture(autouse=True)
def _no_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moe, "gate_codes", dict)


@pytest.fixture
def ask(stand_modules: Stand, make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks one of the oracles above about a layer that asks for something."""

    def decide(
        selector: str, asks: str = "gated", *, oracle: str = "unquantized", spread: bool = False, **scheme: object
    ) -> Any:
        names: dict[str, Any] = {
            one.__name__: one for one in (Backend, Format, AiterExperts, TritonExperts, BatchedExperts)
        }
        names["logger"] = Logger()
        code = ORACLE.replace(f"def {selector}(", "def select_unquantized_moe_backend(")
        exec(compile(code, "/subject/vllm/fused_moe/oracle/unquantized.py", "exec"), names)
        parallel = types.SimpleNamespace(use_batched_activation_format=False)
        config = types.SimpleNamespace(
            asks=asks, use_ep=spread, dp_size=8 if spread else 1, moe_parallel_config=parallel
        )
        monkeypatch.setattr(moe, "moe_config", lambda _scheme: config)
        monkeypatch.setattr(moe, "quant_key", lambda name: name)
        stand_modules({f"{ORACLES}.unquantized": names, KERNEL: {"FusedMoEActivationFormat": Format}})
        return decide_moe(make_cell(surface=Surface.MOE, scheme={"oracle": oracle, **scheme}))

    return decide


# ---- the walk


def test_backends_are_passed_over_taken_or_not_reached_in_vllm_s_order(ask: Ask) -> None:
    decision = ask("select_walks", "no act_and_mul MLP layer")
    assert (decision.ended, decision.chosen) == (Ended.ANSWERED, "TRITON/TritonExperts")
    assert decision.symbol == "select_unquantized_moe_backend"
    assert [(one.name, one.accepted, one.reason) for one in decision.candidates] == [
        ("AITER/AiterExperts", False, "kernel does not support no act_and_mul MLP layer"),
        ("TRITON/TritonExperts", True, ""),
        ("BATCHED", None, ""),
    ]
    assert decision.candidates[0].category is Category.OTHER


def test_an_oracle_that_finds_nothing_refuses_and_each_class_keeps_its_reason(ask: Ask) -> None:
    decision = ask("select_walks", "LoRA")
    assert (decision.ended, decision.chosen) == (Ended.REFUSED, None)
    assert decision.detail == "No MoE backend supports the deployment configuration."
    assert [one.reason for one in decision.candidates] == ["kernel does not support LoRA"] * 3


def test_a_forced_backend_that_does_not_fit_is_a_refusal_with_the_others_not_reached(ask: Ask) -> None:
    decision = ask("select_forces", "LoRA")
    assert decision.ended is Ended.REFUSED
    assert decision.detail.startswith("ROCm AITER does not support")
    assert [(one.name, one.accepted) for one in decision.candidates] == [
        ("AITER/AiterExperts", False),
        ("TRITON", None),
        ("BATCHED", None),
    ]


def test_a_backend_that_does_not_fit_the_checkpoint_keeps_that_reason(ask: Ask) -> None:
    decision = ask("select_checks")
    assert [(one.name, one.accepted, one.reason) for one in decision.candidates] == [
        ("AITER", False, "zero points are not supported"),
        ("TRITON/TritonExperts", True, ""),
    ]


# ---- what is chosen


def test_a_backend_without_a_class_is_named_alone(ask: Ask) -> None:
    assert ask("select_nothing").chosen == "BATCHED"
    assert ask("select_names", spread=True).chosen == "TRITON"
    assert ask("select_names").chosen == "AITER"


def test_the_chosen_class_is_asked_for_the_exact_request_even_where_the_oracle_did_not_ask(ask: Ask) -> None:
    sound = ask("select_blindly")
    assert [(one.question, one.answer) for one in sound.evidence] == [
        ("TritonExperts.is_supported_config", "True"),
        ("TritonExperts.is_monolithic", "False"),
        ("vLLM warns", "falling back to TRITON"),
    ]
    wrong = ask("select_blindly", weight="W", activation="A")
    assert wrong.chosen == "TRITON/TritonExperts"
    assert wrong.evidence[0].answer == "False: kernel does not support quantization scheme WxA"


def test_a_request_that_names_no_activation_is_put_to_the_class_as_the_oracle_put_it(ask: Ask) -> None:
    assert ask("select_walks", weight="W").evidence[0].answer == "True"


# ---- errors


def test_an_operation_that_fails_is_no_refusal(ask: Ask) -> None:
    decision = ask("select_removes")
    assert decision.ended is Ended.RAISED
    assert decision.detail.startswith("ValueError: ")


def test_a_bare_not_implemented_error_is_no_refusal(ask: Ask) -> None:
    decision = ask("select_wordless")
    assert decision.ended is Ended.RAISED
    assert decision.detail.startswith("NotImplementedError: ")


def test_what_the_release_lacks_is_unsupported_by_name(ask: Ask, make_cell: Callable[..., Cell]) -> None:
    assert ask("select_nothing", oracle="int8").ended is Ended.UNSUPPORTED

    def lacking(_scheme: object) -> Any:
        raise Missing("FusedMoEConfig.has_hash_routing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moe, "moe_config", lacking)
        decision = decide_moe(make_cell(surface=Surface.MOE, scheme={"oracle": "unquantized"}))
    assert (decision.ended, decision.detail) == (
        Ended.UNSUPPORTED,
        "this vLLM has no FusedMoEConfig.has_hash_routing",
    )


@pytest.mark.parametrize(
    ("names", "oracle", "selector"),
    [
        (("select_mxfp4_moe_backend",), "mxfp4", "select_mxfp4_moe_backend"),
        (("select_gpt_oss_mxfp4_moe_backend", "select_mxfp4_moe_backend"), "mxfp4", "select_gpt_oss_mxfp4_moe_backend"),
        (
            ("select_gpt_oss_mxfp4_moe_backend", "select_mxfp4_moe_backend"),
            "mxfp4_deepseek_v4",
            "select_mxfp4_moe_backend",
        ),
        (
            ("select_mxfp4_moe_backend", "select_deepseek_v4_mxfp4_moe_backend"),
            "mxfp4_deepseek_v4",
            "select_deepseek_v4_mxfp4_moe_backend",
        ),
        (("select_mxfp4_moe_backend",), "mxfp4_deepseek_v4", None),
    ],
)
def test_the_two_mxfp4_selectors_are_told_apart_in_every_release(
    stand_modules: Stand, names: tuple[str, ...], oracle: str, selector: str | None
) -> None:
    stand_modules({f"{ORACLES}.mxfp4": {name: types.FunctionType(print_nothing.__code__, {}, name) for name in names}})
    if selector is None:
        with pytest.raises(Missing):
            moe._selector(oracle)
    else:
        assert moe._selector(oracle).__name__ == selector


def print_nothing() -> None: ...


# ---- real vLLM


@pytest.fixture(scope="session")
def layers(routed: Callable[..., dict[str, Record]]) -> dict[str, Record]:
    """MoE layers of the default release on MI300X with AITER on, and on RDNA3."""
    families = ["unquantized", "unquantized_nongated", "fp8", "mxfp4_activation", "mxfp8", "nvfp4", "wna16", "int8"]
    return routed(
        "0.33.0",
        {"targets": ["gfx942/MI300X"], "environments": ["aiter_on"], "kernels": families},
        {"targets": ["gfx1100"], "environments": ["aiter_on"], "kernels": ["unquantized"]},
    )


def test_every_oracle_of_the_default_release_is_answered(layers: dict[str, Record]) -> None:
    broken = {record.id: record.reason for record in layers.values() if record.outcome in ("crashed", "unsupported")}
    assert broken == {}


def test_the_chosen_backend_is_the_one_that_was_accepted(layers: dict[str, Record]) -> None:
    walked = [record for record in layers.values() if record.chosen and record.candidates]
    assert len(walked) > 40
    for record in walked:
        taken = [one.name for one in record.candidates if one.accepted]
        assert not taken or record.chosen in taken, record.id


def test_every_backend_that_was_passed_over_has_vllm_s_reason(layers: dict[str, Record]) -> None:
    silent = [
        one.name for record in layers.values() for one in record.candidates if one.accepted is False and not one.reason
    ]
    assert silent == []


def test_aiter_that_cannot_serve_makes_way_and_says_so(layers: dict[str, Record]) -> None:
    record = layers["route/moe/gfx942.MI300X/aiter_on/bf16_nemotron"]
    assert record.chosen == "TRITON/TritonExperts"
    assert any(one.question == "vLLM warns" and "Falling back" in one.answer for one in record.evidence)
    assert layers["route/moe/gfx1100.RX7900XTX/aiter_on/bf16_qwen3_tp8"].chosen == "TRITON/TritonExperts"
