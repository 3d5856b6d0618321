from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from harness.adapters.platform import decide_fact, forget_platform_answers
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Record


class Capability(NamedTuple):
    major: int
    minor: int


class Platform:
    device_name = "rocm"

    def __getattr__(self, name: str) -> None:
        """As vLLM's: an unknown name is None, not an error."""

    @classmethod
    def get_device_capability(cls) -> Capability:
        return Capability(9, 4)

    @classmethod
    def supports_fp8(cls) -> bool:
        raise RuntimeError("no device")


def on_gfx942() -> bool:
    return True


@pytest.fixture
def ask(
    stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None], make_cell: Callable[..., Cell]
) -> Callable[..., Any]:
    def decide(name: str, family: str = "facts") -> Any:
        platform, rocm = {"current_platform": Platform()}, {"on_gfx942": on_gfx942}
        stand_modules({"vllm.platforms": platform, "vllm.platforms.rocm": rocm})
        return decide_fact(make_cell(name, surface=Surface.PLATFORM, family=family))

    return decide


@pytest.mark.parametrize(
    ("name", "family", "value", "symbol"),
    [
        ("device_name", "facts", "rocm", "device_name"),
        ("get_device_capability", "facts", "(9, 4)", "Platform.get_device_capability"),
        ("on_gfx942", "arch", "True", "on_gfx942"),
    ],
)
def test_a_fact_is_its_value_as_text(ask: Callable[..., Any], name: str, family: str, value: str, symbol: str) -> None:
    decision = ask(name, family)
    assert (decision.ended, decision.chosen, decision.symbol) == (Ended.ANSWERED, value, symbol)


@pytest.mark.parametrize(("name", "family"), [("is_of_the_future", "facts"), ("on_gfx1300", "arch")])
def test_a_fact_that_the_release_lacks_is_unsupported_and_never_none(
    ask: Callable[..., Any], name: str, family: str
) -> None:
    decision = ask(name, family)
    assert (decision.ended, decision.detail) == (Ended.UNSUPPORTED, f"this vLLM has no platform fact {name}")


def test_a_fact_that_raises_is_an_observation(ask: Callable[..., Any]) -> None:
    decision = ask("supports_fp8")
    assert decision.ended is Ended.RAISED
    assert decision.detail.startswith("RuntimeError: no device")


# ---- real vLLM


FACTS = {
    "gfx942.MI300X/aiter_off": {
        "fp8_dtype": "torch.float8_e4m3fnuz",
        "get_device_capability": "(9, 4)",
        "num_compute_units": "304",
        "device_name": "rocm",
    },
    "sm90.H100/default": {
        "fp8_dtype": "torch.float8_e4m3fn",
        "get_device_capability": "(9, 0)",
        "num_compute_units": "132",
        "device_name": "cuda",
    },
    "xpu/default": {"get_device_capability": "None", "device_name": "xpu", "supports_fp8": "True"},
    "cpu/default": {"device_type": "cpu", "supports_mx": "False"},
    "none/default": {"device_type": "", "supports_fp8": "False"},
}


@pytest.mark.parametrize(("target", "facts"), FACTS.items(), ids=FACTS)
def test_vllm_s_own_platform_answers_for_the_target(
    routes: dict[str, Record], target: str, facts: dict[str, str]
) -> None:
    found = {name: routes[f"route/platform/{target}/{name}"].chosen for name in facts}
    assert found == facts


def test_the_predicates_of_the_default_release_agree_with_the_name(gfx942: dict[str, Record]) -> None:
    arch = {record.kernel: record.chosen for record in gfx942.values() if record.family == "arch"}
    assert (arch["on_gfx942"], arch["on_gfx950"], arch["on_rdna"], arch["get_cdna_version"]) == (
        "True",
        "False",
        "False",
        "3",
    )


def test_every_cache_of_the_platform_modules_is_cleared(
    stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None],
) -> None:
    asked: list[str] = []

    @functools.cache
    def on_gfx9() -> bool:
        asked.append("module")
        return True

    class Rocm:
        @classmethod
        @functools.lru_cache
        def get_device_capability(cls) -> int:
            asked.append("class")
            return 9

    Rocm.__module__ = "vllm.platforms.rocm"
    stand_modules({"vllm.platforms.rocm": {"on_gfx9": on_gfx9, "Rocm": Rocm}})
    stand_modules({"vllm.platforms": {"rocm": sys.modules["vllm.platforms.rocm"]}})
    for _ in range(2):
        forget_platform_answers()
        on_gfx9()
        Rocm.get_device_capability()
    assert asked == ["module", "class"] * 2
