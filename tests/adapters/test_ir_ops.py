from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from harness.adapters import ir_ops
from harness.adapters.ir_ops import decide_ir_op
from harness.model.cell import Cell, Surface
from harness.model.record import Category, Ended, Record

Ask = Callable[..., Any]


def native(x: Any, weight: Any, epsilon: float, variance_size: int | None = None) -> Any:
    """The operator's own code."""


def takes_16_bit(x: Any, weight: Any, epsilon: float, variance_size: int | None = None) -> bool:
    return x.dtype != torch.float32 and variance_size is None and x.is_contiguous()


class Operator:
    """As ``vllm.ir.op.IrOp``."""

    name = "norm"

    def __init__(self, broken: bool = False) -> None:
        self.ranked: list[str] = []
        self.broken = broken
        self.impls = {
            "native": self._made("native", True, lambda **_: True),
            "fast": self._made("fast", True, takes_16_bit),
            "foreign": self._made("foreign", False, lambda **_: True),
        }

    @staticmethod
    def _made(name: str, supported: bool, takes: Callable[..., bool]) -> Any:
        return types.SimpleNamespace(provider=name, supported=supported, supports_args=takes, impl_fn=native)

    @contextmanager
    def set_priority(self, order: list[str]) -> Iterator[None]:
        self.ranked = [name for name in order if self.impls[name].supported]
        yield

    def get_priority(self) -> list[str]:
        return self.ranked

    def dispatch(self, **arguments: Any) -> Any:
        if self.broken:
            raise RuntimeError("Priority set incorrectly")
        return next(self.impls[name] for name in self.ranked if self.impls[name].supports_args(**arguments))


class Platform:
    @classmethod
    def import_ir_kernels(cls) -> None: ...

    @classmethod
    def get_default_ir_op_priority(cls, _config: object) -> None: ...


@pytest.fixture
def ask(
    stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> Ask:
    def decide(name: str, order: tuple[str, ...] = ("foreign", "fast", "native"), *, broken: bool = False) -> Any:
        registry = types.SimpleNamespace(registry={"norm": Operator(broken)})
        stand_modules({"vllm.ir.op": {"IrOp": registry}, "vllm.platforms": {"current_platform": Platform()}})
        asked: list[str] = []
        priority = types.SimpleNamespace(norm=list(order)) if order else types.SimpleNamespace()
        config = types.SimpleNamespace(kernel_config=types.SimpleNamespace(ir_op_priority=priority))
        monkeypatch.setattr(ir_ops, "configured", lambda run: asked.append(run) or config)
        return decide_ir_op(make_cell(name, surface=Surface.IR_OP))

    return decide


def test_an_order_is_the_ranking_with_who_is_passed_over(ask: Ask) -> None:
    decision = ask("order.norm.eager")
    assert (decision.ended, decision.chosen) == (Ended.ANSWERED, "foreign > fast > native")
    assert decision.symbol == "Platform.get_default_ir_op_priority"
    assert [(item.name, item.accepted, item.category) for item in decision.candidates] == [
        ("foreign", False, Category.PLATFORM),
        ("fast", True, None),
        ("native", None, None),
    ]


@pytest.mark.parametrize(
    ("tensors", "taken"),
    [("bfloat16", "fast"), ("float32", "native"), ("partial_variance", "native"), ("strided", "native")],
)
def test_a_dispatch_is_who_is_run_for_the_tensors(ask: Ask, tensors: str, taken: str) -> None:
    decision = ask(f"dispatch.norm.{tensors}")
    assert decision.chosen == taken
    assert decision.evidence[0].answer == "fast > native"
    assert next(item.name for item in decision.candidates if item.accepted) == taken


def test_an_implementation_says_what_it_takes(ask: Ask) -> None:
    chosen = (
        "supported: bfloat16, float16, mixed_weight, no_weight, three_dims; not: float32, partial_variance, strided"
    )
    assert ask("support.norm.fast").chosen == chosen
    assert ask("support.norm.foreign").chosen == "unsupported here"


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("order.other.eager", "IR operator other"),
        ("support.norm.other", "implementation other of IR operator norm"),
    ],
)
def test_what_the_release_lacks_is_unsupported(ask: Ask, name: str, lacking: str) -> None:
    decision = ask(name)
    assert (decision.ended, decision.detail) == (Ended.UNSUPPORTED, f"this vLLM has no {lacking}")


def test_an_operator_without_a_priority_is_unsupported(ask: Ask) -> None:
    assert ask("order.norm.eager", ()).ended is Ended.UNSUPPORTED


def test_a_registry_that_raises_is_an_observation(ask: Ask) -> None:
    assert ask("dispatch.norm.bfloat16", broken=True).ended is Ended.RAISED


def test_a_fourth_word_of_the_name_only_tells_cells_apart(ask: Ask) -> None:
    assert ask("order.norm.eager.off").chosen == ask("order.norm.eager").chosen


def test_the_tensors_of_a_question_are_what_its_name_says() -> None:
    operator: Any = Operator()
    assert ir_ops._arguments(operator, "mixed_weight")["weight"].dtype is torch.float32
    assert ir_ops._arguments(operator, "no_weight")["weight"] is None
    assert not ir_ops._arguments(operator, "strided")["x"].is_contiguous()
    assert set(ir_ops._arguments(operator, "bfloat16")) == set(inspect.signature(native).parameters)


# ---- real vLLM


def test_rdna4_gets_the_compiled_kernel_and_mi300_aiter_s(routed: Callable[..., dict[str, Record]]) -> None:
    words = {"kernels": ["order.rms_norm.default", "dispatch.rms_norm.bfloat16"], "environments": ["aiter_on"]}
    found = routed("0.33.0", {"targets": ["gfx942/MI300X", "gfx1201"], **words})
    chosen = {(record.target, record.kernel): record.chosen for record in found.values()}
    assert chosen == {
        ("gfx942", "order.rms_norm.default"): "aiter > native",
        ("gfx942", "dispatch.rms_norm.bfloat16"): "aiter",
        ("gfx1201", "order.rms_norm.default"): "native",
        ("gfx1201", "dispatch.rms_norm.bfloat16"): "vllm_c",
    }
