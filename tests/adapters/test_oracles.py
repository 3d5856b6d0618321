from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.adapters import oracles
from harness.adapters.moe import MoeRequest
from harness.adapters.moe_config import KERNEL
from harness.adapters.oracles import decide_moe_oracle
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record

MODULE = "vllm.model_executor.layers.fused_moe.oracle.int8"

Ask = Callable[..., str]


class Backend(enum.Enum):
    AITER = "ROCm AITER"
    TRITON = "Triton"


class Format(enum.Enum):
    Standard = 1
    BatchedExperts = 2


class Experts:
    @staticmethod
    def is_supported_config(cls, *asked):  # type: ignore[no-untyped-def]  # noqa: PLW0211
        raise AssertionError("the classes are stood in for")


class AiterBlock(Experts): ...


class AiterTensor(Experts):
    @staticmethod
    def is_supported_config(cls, *asked):  # type: ignore[no-untyped-def]  # noqa: PLW0211
        raise AssertionError("this one too")


class Triton(Experts): ...


CLASSES = {Backend.AITER: (AiterBlock, AiterTensor), Backend.TRITON: (Triton,)}


def walks(config: Any, key: str = "A") -> Any:
    """An oracle as vLLM's are."""
    backends = [Backend.AITER, Backend.TRITON]
    if config.moe_backend == "triton":
        backends = [Backend.TRITON]
    elif config.moe_backend != "auto":
        raise ValueError(f"moe_backend={config.moe_backend!r} is not supported.")
    for backend in backends:
        for cls in CLASSES[backend]:
            supported, reason = cls.is_supported_config(cls, config, "W", key, Format.Standard)
            if supported:
                return backend, cls
    raise NotImplementedError(f"None fits since {reason}.")


def ignores(config: Any) -> Any:
    """Takes no yes."""
    Triton.is_supported_config(Triton, config, "W", "A", Format.Standard)
    raise NotImplementedError("None fits.")


def confuses(config: Any) -> Any:
    """Asks one class and returns another."""
    supported, _ = AiterBlock.is_supported_config(AiterBlock, config, "W", "A", Format.Standard)
    return (Backend.TRITON, Triton) if supported else (Backend.TRITON, None)


def without_end(config: Any) -> Any:
    while True:
        supported, _ = Triton.is_supported_config(Triton, config, "W", "A", Format.Standard)
        if supported:
            return Backend.TRITON, Triton


@pytest.fixture
def ask(stand_modules: Callable[..., None], make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """What one of the oracles above says of a base layer and of one that is asked for otherwise."""

    def decide(selector: Callable[..., Any], part: str = "layers", **arguments: Any) -> str:
        stand_modules({
            MODULE: {"backend_to_kernel_cls": lambda backend: CLASSES[backend], "Int8MoeBackend": Backend},
            KERNEL: {"FusedMoEExperts": Experts},
            "vllm.platforms": {"current_platform": types.SimpleNamespace()},
        })  # fmt: skip

        def request(scheme: Mapping[str, Any]) -> MoeRequest:
            parallel = types.SimpleNamespace(use_batched_activation_format=bool(scheme.get("dp")))
            config = types.SimpleNamespace(moe_backend=scheme.get("backend", "auto"), moe_parallel_config=parallel)
            return MoeRequest(chosen, {"config": config, **arguments}, config, "W", "A")

        def chosen(**asked: Any) -> Any:
            return selector(**asked)

        chosen.__module__ = MODULE
        monkeypatch.setattr(oracles, "moe_request", request)
        monkeypatch.setattr(oracles, "key_names", lambda: {"B": "kMxfp8Dynamic"})
        monkeypatch.setattr(oracles, "MOVED", {"base": {}, "batched": {"dp": 8}})
        for table in ("_ACTIVATIONS", "_POSED"):
            monkeypatch.setattr(oracles, table, {})
        monkeypatch.setattr(oracles, "_SWITCHES", ())
        monkeypatch.setattr(oracles, "_UNSET", {})
        monkeypatch.setattr(oracles, "_REQUESTED", ("base",))
        monkeypatch.setattr(oracles, "requested_backends", lambda: ("triton", "aiter", "nobody"))
        decision = decide_moe_oracle(make_cell(f"int8.{part}", surface=Surface.MOE_ORACLE))
        assert decision.ended is Ended.ANSWERED, decision.detail
        return str(decision.chosen)

    return decide


WALK = "AITER/AiterBlock > /AiterTensor > TRITON/Triton"


def test_everyone_who_would_be_taken_stands_in_the_order_of_asking_and_then_the_end(ask: Ask) -> None:
    line = ask(walks)
    assert line.startswith(f"base: {WALK} > NotImplementedError: None fits since of a stand-in.")
    assert f"batched: {WALK.replace('Block', 'Block[Standard]')}".replace("Tensor", "Tensor[Standard]") in line


def test_other_keys_than_those_of_the_request_are_written_down(ask: Ask) -> None:
    assert "AITER/AiterBlock[kMxfp8Dynamic] > " in ask(walks, key="B")


def test_an_oracle_that_takes_no_yes_is_seen(ask: Ask) -> None:
    assert ask(ignores).startswith("base: Triton gives NotImplementedError: None fits.")


def test_an_oracle_that_takes_another_class_than_it_asked_is_seen(ask: Ask) -> None:
    assert ask(confuses).startswith("base: AiterBlock gives TRITON/Triton > TRITON")


def test_an_oracle_that_asks_without_end_is_ended(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "_MOST", 3)
    assert ask(without_end).startswith("base: TRITON/Triton > /Triton > /Triton > without end")


def test_requests_that_end_alike_stand_together(ask: Ask) -> None:
    line = ask(walks, "requests")
    assert "triton: TRITON/Triton > NotImplementedError: None fits since of a stand-in." in line
    assert "others: ValueError: moe_backend=it is not supported." in line


def test_the_classes_are_theirs_again_afterwards(ask: Ask) -> None:
    ask(walks)
    with pytest.raises(AssertionError, match="this one too"):
        AiterTensor.is_supported_config(AiterTensor)
    with pytest.raises(AssertionError, match="stood in for"):
        AiterBlock.is_supported_config(AiterBlock)


@pytest.mark.parametrize("name", ["int8.nothing", "nobody.layers", "int8"])
def test_a_part_or_an_oracle_that_nobody_knows_is_unsupported(make_cell: Callable[..., Cell], name: str) -> None:
    assert decide_moe_oracle(make_cell(name, surface=Surface.MOE_ORACLE)).ended is Ended.UNSUPPORTED


# ---- real vLLM


def test_every_oracle_of_the_default_release_answers(routed: Callable[..., dict[str, Record]]) -> None:
    where = {"targets": ["gfx942/MI300X"], "environments": ["aiter_off"]}
    records = routed("0.33.0", {**where, "kernels": ["moe_oracle"]})
    assert {record.outcome for record in records.values()} == {"passed"}
    fp8 = str(records["route/moe_oracle/gfx942.MI300X/aiter_off/fp8.layers"].chosen)
    assert "AITER/AiterFp8BlockExperts > /AiterFp8TensorExperts > /AiterFp8ChannelExperts > " in fp8
    wna16 = str(records["route/moe_oracle/gfx942.MI300X/aiter_off/wna16.functions"].chosen)
    assert "only compressed-tensors checkpoints are supported" in wna16
