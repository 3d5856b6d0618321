from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.adapters import expert_configs
from harness.adapters.decision import Missing
from harness.adapters.expert_configs import halves, whole
from harness.adapters.moe_config import KERNEL

MODULE = "vllm.model_executor.layers.fused_moe.experts.some"


class Format(enum.Enum):
    Standard = 1
    BatchedExperts = 2


class Base:
    """An experts class whose ``is_supported_config`` asks in the order of vLLM's."""

    @staticmethod
    def _supports_current_device() -> bool:
        return False

    @staticmethod
    def activation_format() -> Format:
        return Format.Standard

    @staticmethod
    def is_supported_config(cls: Any, config: Any, weight: Any, activation: Any, shape: Any) -> tuple[bool, str | None]:  # noqa: PLW0211
        if not cls._supports_current_device():
            return False, "kernel does not support current device"
        if config.get("lora"):
            return False, "kernel does not support LoRA"
        return (True, None) if shape is Format.Standard else (False, "kernel does not support batched")


class First(Base):
    """Asks for LoRA before the device."""

    @staticmethod
    def is_supported_config(cls: Any, config: Any, *rest: Any) -> tuple[bool, str | None]:  # noqa: PLW0211
        return (
            (False, "kernel does not support LoRA")
            if config.get("lora")
            else Base.is_supported_config(cls, config, *rest)
        )


class Unanswering(Base):
    @staticmethod
    def is_supported_config(cls: Any, *rest: Any) -> tuple[bool, str | None]:  # noqa: PLW0211
        raise NotImplementedError("not yet used by an oracle")


@pytest.fixture(autouse=True)
def _some_layers(monkeypatch: pytest.MonkeyPatch, stand_modules: Callable[..., None]) -> None:
    stand_modules({KERNEL: {"FusedMoEActivationFormat": Format}})
    monkeypatch.setattr(expert_configs, "MOVED", {"base": {}, "ep8": {"ep": 8}, "lora": {"lora": True}, "hash": {}})
    monkeypatch.setattr(expert_configs, "activations", dict)
    monkeypatch.setattr(expert_configs, "moe_config", dict)


def test_a_class_is_asked_layer_by_layer_on_its_own_device_and_elsewhere() -> None:
    assert whole(Base, {"none": (None, None)}) == (
        "as its device [none: others: takes; lora: kernel does not support LoRA; "
        "another_format: kernel does not support batched] "
        "elsewhere [all: kernel does not support current device]"
    )
    assert Base._supports_current_device() is False  # granted only while asked


def test_a_reason_that_is_given_before_the_device_shows_elsewhere() -> None:
    assert "elsewhere [others: kernel does not support current device; lora: kernel does not support LoRA]" in whole(
        First, {}
    )


def test_schemes_of_which_the_same_is_said_stand_together() -> None:
    assert "as its device [all: others: takes; " in whole(Base, {"none": (None, None), "fp8": ("W", "A")})


def test_a_class_that_cannot_answer_says_so() -> None:
    assert "raises NotImplementedError: not yet used by an oracle" in whole(Unanswering, {})


def test_layers_that_the_release_lacks_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(scheme: Mapping[str, Any]) -> Any:
        if "lora" in scheme:
            raise Missing("FusedMoEConfig.is_lora_enabled")
        return dict(scheme)

    monkeypatch.setattr(expert_configs, "moe_config", lacking)
    assert "LoRA" not in whole(Base, {})


def test_what_the_module_asks_of_the_installation_is_answered_otherwise(
    monkeypatch: pytest.MonkeyPatch, stand_modules: Callable[..., None]
) -> None:
    stand_modules({MODULE: {"has_quark": lambda: True, "has_operator": lambda name: True}})
    module: Any = sys.modules[MODULE]

    class Quark(Base):
        @staticmethod
        def _supports_current_device() -> bool:
            return bool(module.has_quark())

    monkeypatch.setattr(Quark, "__module__", MODULE)
    line = whole(Quark, {})
    assert "turned [has_quark=False: no device, takes]" in line
    assert "has_operator" not in line  # it wants an argument
    assert module.has_quark() is True


# ---- classes that are made of two


class OfTwo:
    """Left to subclasses is which."""

    @classmethod
    def get_clses(cls) -> tuple[Any, Any]:
        raise NotImplementedError("Subclasses must return the cls for the experts and fallback experts.")

    @classmethod
    def _supports_activation(cls, activation: Any) -> bool:
        one, other = cls.get_clses()
        return one._supports_activation(activation) and other._supports_activation(activation)


class OfOne(OfTwo):
    @classmethod
    def _supports_activation(cls, activation: Any) -> bool:
        return bool(cls.get_clses()[1]._supports_activation(activation))


def test_a_class_of_two_is_asked_with_halves_that_say_yes_and_no() -> None:
    assert "_supports_activation: 11=1 10=0 01=0 00=0" in halves(OfTwo)
    assert "_supports_activation: 11=1 10=0 01=1 00=0" in halves(OfOne)


def test_only_a_class_that_leaves_its_halves_open_is_asked_so() -> None:
    assert halves(Base) == ""
    named = type("Named", (OfTwo,), {"get_clses": staticmethod(lambda: (types.SimpleNamespace(),) * 2)})
    assert halves(named) == ""
