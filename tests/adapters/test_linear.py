from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.adapters import linear
from harness.adapters.linear import decide_allowlist, decide_linear, predicate_of
from harness.model.cell import Cell, Layer, Surface
from harness.model.record import Category, Ended, Record

MODULE = "vllm.model_executor.kernels.linear"
LAYER = Layer("gate_up_proj", 256, 512)

Stand = Callable[[Mapping[str, Mapping[str, object]]], None]


class Broken:
    @classmethod
    def is_supported(cls, capability: int | None = None) -> tuple[bool, str | None]:
        raise AttributeError("'NoneType' object has no attribute 'major'")


class Picky(Broken):
    @classmethod
    def is_supported(cls, capability: int | None = None) -> tuple[bool, str | None]:
        return (True, None) if capability == 94 else (False, "requires capability 94")


class Fast(Picky):
    use_triton = True


class Plain:
    @classmethod
    def can_implement(cls, config: object) -> tuple[bool, str | None]:
        return True, None


SELECTORS = """
def walks(config):
    platform_kernels = [Picky, Fast, Plain]
    failure_reasons = []
    for kernel in platform_kernels:
        if kernel.__name__ in config.accepted:
            return kernel
        failure_reasons.append(f" {kernel.__name__} group size (7) is not supported\\n")
    raise ValueError("No kernel:\\n" + "".join(failure_reasons))

def forces(config):
    force_kernel = Fast
    failure_reason = "" if Fast.__name__ in config.accepted else "is not forced today"
    if failure_reason:
        raise ValueError(failure_reason)
    return force_kernel

def unpacks(config):
    return unpack()

def unpack():
    one, two = 1, 2, 3

def builds(config):
    return Fast()

def breaks(config):
    raise config.error("oops")
"""
"""Selectors as vLLM writes them, to stand in a file of the subject's under the name of one."""


class Config:
    accepted: tuple[str, ...] = ("Fast",)

    def __init__(self, full_weight_shape: tuple[int, int], group_size: int, has_g_idx: bool) -> None:
        self.full_weight_shape = full_weight_shape


class Types(enum.Enum):
    uint4b8 = 1


@pytest.fixture(autouse=True)
def _no_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "gate_codes", dict)


@pytest.fixture
def ask(stand_modules: Stand, make_cell: Callable[..., Cell]) -> Callable[..., Any]:
    """Asks a linear module that consists of what is given."""

    def decide(selector: str | None, *accepted: str, error: type[Exception] = Exception) -> Any:
        config = type("Config", (Config,), {"accepted": accepted, "error": error})
        code = SELECTORS.replace(f"def {selector}(", "def choose_mp_linear_kernel(")
        names: dict[str, Any] = {"Picky": Picky, "Fast": Fast, "Plain": Plain}
        exec(compile(code, "/subject/vllm/linear.py", "exec"), names)
        stand_modules({MODULE: {"MPLinearLayerConfig": config, **names}, "vllm.scalar_type": {"scalar_types": Types}})
        scheme = {"entry": "mp", "weight_type": "uint4b8", "group_size": 128, "zero_points": False, "dtype": "bfloat16"}
        return decide_linear(make_cell(scheme=scheme, layer=LAYER))

    return decide


# ---- a selector's walk


def test_candidates_are_passed_over_taken_or_not_reached_in_the_list_s_order(ask: Callable[..., Any]) -> None:
    decision = ask("walks", "Fast", "Plain")
    assert (decision.ended, decision.chosen, decision.symbol) == (Ended.ANSWERED, "Fast", "Picky.is_supported")
    assert [(one.name, one.accepted, one.category) for one in decision.candidates] == [
        ("Picky", False, Category.SHAPE),
        ("Fast", True, None),
        ("Plain", None, None),
    ]
    assert decision.candidates[0].reason == "Picky group size (7) is not supported"


def test_a_selector_that_finds_nothing_refuses_and_each_candidate_keeps_its_reason(ask: Callable[..., Any]) -> None:
    decision = ask("walks")
    assert (decision.ended, decision.chosen, decision.symbol) == (Ended.REFUSED, None, "choose_mp_linear_kernel")
    assert decision.detail.startswith("No kernel:\n Picky group size")
    assert [one.accepted for one in decision.candidates] == [False] * 3


def test_a_value_error_from_deeper_down_is_no_refusal(ask: Callable[..., Any]) -> None:
    decision = ask("unpacks")
    assert (decision.ended, decision.symbol) == (Ended.RAISED, "unpack")
    assert decision.detail.startswith("ValueError: too many values to unpack (expected 2), at vllm/linear.py:")


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, NotImplementedError, AssertionError])
def test_any_other_error_is_an_observation_and_no_crash_of_the_probe(
    ask: Callable[..., Any], error: type[Exception]
) -> None:
    decision = ask("breaks", error=error)
    assert decision.ended is Ended.RAISED
    assert decision.detail.startswith(f"{error.__name__}: ")


def test_a_release_without_the_entry_point_is_unsupported(ask: Callable[..., Any]) -> None:
    decision = ask(None)
    assert (decision.ended, decision.detail) == (
        Ended.UNSUPPORTED,
        f"this vLLM has no {MODULE}.choose_mp_linear_kernel",
    )


@pytest.mark.parametrize(("accepted", "taken", "reason"), [(["Fast"], True, ""), ([], False, "is not forced today")])
def test_a_forced_kernel_is_the_only_candidate(
    ask: Callable[..., Any], accepted: list[str], taken: bool, reason: str
) -> None:
    decision = ask("forces", *accepted)
    assert decision.ended is (Ended.ANSWERED if taken else Ended.REFUSED)
    assert [(one.name, one.accepted, one.reason) for one in decision.candidates] == [("Fast", taken, reason)]


def test_the_variant_that_a_kernel_object_runs_is_evidence(ask: Callable[..., Any]) -> None:
    decision = ask("builds")
    assert decision.chosen == "Fast"
    assert [(item.question, item.answer) for item in decision.evidence] == [("Fast.use_triton", "True")]


def test_the_predicate_is_named_by_the_class_that_defines_it() -> None:
    assert predicate_of(Fast) == "Picky.is_supported"
    assert predicate_of(Plain) == "Plain.can_implement"
    assert predicate_of(int) == "int"


# ---- the allowlist


@pytest.mark.parametrize(
    ("capability", "chosen", "reason"),
    [
        ((9, 4), "accepted", ""),
        ((11, 0), "refused", "requires capability 94"),
        (None, "refused", "requires capability 94"),
    ],
)
def test_a_kernel_is_asked_with_the_number_that_vllm_would_pass(
    stand_modules: Stand, make_cell: Callable[..., Cell], capability: tuple[int, int] | None, chosen: str, reason: str
) -> None:
    decision = _allowlist(stand_modules, make_cell, "kernels:Picky", capability)
    assert (decision.chosen, decision.detail) == (chosen, reason)
    assert decision.symbol == "Picky.is_supported"
    number = None if capability is None else capability[0] * 10 + capability[1]
    assert decision.evidence[0].question == f"Picky.is_supported({number})"


@pytest.mark.parametrize("symbol", ["kernels:Absent", "no_such_module:Picky"])
def test_a_kernel_that_the_release_lacks_is_unsupported(
    stand_modules: Stand, make_cell: Callable[..., Cell], symbol: str
) -> None:
    assert _allowlist(stand_modules, make_cell, symbol, (9, 4)).ended is Ended.UNSUPPORTED


def test_a_predicate_that_raises_is_an_observation(stand_modules: Stand, make_cell: Callable[..., Cell]) -> None:
    decision = _allowlist(stand_modules, make_cell, "kernels:Broken", None)
    assert decision.ended is Ended.RAISED
    assert "AttributeError" in decision.detail


def _allowlist(stand: Stand, make_cell: Callable[..., Cell], symbol: str, capability: tuple[int, int] | None) -> Any:
    platform = type("Platform", (), {"get_device_capability": staticmethod(lambda: capability)})
    stand({"kernels": {"Picky": Picky, "Broken": Broken}, "vllm.platforms": {"current_platform": platform}})
    return decide_allowlist(make_cell(surface=Surface.ALLOWLIST, scheme={"symbol": symbol}))


# ---- real vLLM


def test_every_entry_point_of_the_matrix_is_answered_by_the_default_release(routes: dict[str, Record]) -> None:
    asked = [record for record in routes.values() if record.surface == "linear"]
    assert len({record.kernel for record in asked}) >= 20
    unanswered = {
        record.id: record.reason for record in asked if record.outcome in ("crashed", "unsupported", "not_run")
    }
    assert unanswered == {}


def test_an_answer_is_what_the_walk_accepted(routes: dict[str, Record]) -> None:
    for record in routes.values():
        taken = [one.name for one in record.candidates if one.accepted]
        if record.surface == "linear" and record.candidates and record.chosen:
            assert sorted(taken) == sorted(record.chosen.split(" > ")), record.id  # a chain takes several


def test_every_candidate_that_was_passed_over_has_vllm_s_reason(routes: dict[str, Record]) -> None:
    silent = {
        one.name for record in routes.values() for one in record.candidates if one.accepted is False and not one.reason
    }
    assert silent == set()


def test_a_refusal_lists_every_candidate(routes: dict[str, Record]) -> None:
    refusals = [r for r in routes.values() if r.surface == "linear" and r.chosen is None and r.outcome == "passed"]
    assert refusals
    for record in refusals:
        assert record.reason.startswith("vLLM refuses: ")
        assert all(one.accepted is False for one in record.candidates)


def test_one_target_of_each_platform_gets_its_own_kernels(routes: dict[str, Record]) -> None:
    def chosen(target: str, environment: str, kernel: str) -> str | None:
        return routes[f"route/linear/{target}/{environment}/{kernel}/qwen3-0.6b.tp1/qkv"].chosen

    assert chosen("gfx942.MI300X", "aiter_off", "fp8_block") == "TritonFp8BlockScaledMMKernel"
    assert chosen("gfx942.MI300X", "aiter_on", "fp8_block") == "AiterFp8BlockScaledMMKernel"
    assert chosen("sm90.H100", "default", "gptq_g128") == "MacheteLinearKernel"
    assert str(chosen("xpu", "default", "fp8_tensor_static")).startswith("XPU")
    assert str(chosen("cpu", "default", "gptq_g128")).startswith("CPU")
