"""Expert classes asked as oracles ask them: ``is_supported_config`` as a whole, one thing moved at a time.

In: an experts class and the quantization keys that it takes. Out: text: which layers it takes, and the reason for each
other. The device is granted, so that what stands behind that question shows on every target, and then refused, so that
what stands before it shows too. It must not build an experts object.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

from harness.adapters.answers import grouped, said
from harness.adapters.decision import Missing
from harness.adapters.moe_config import KERNEL, activations, moe_config

_DEVICE = "_supports_current_device"

Keys = tuple[Any, Any]

BASE: Mapping[str, Any] = {
    "experts": 128,
    "topk": 8,
    "hidden": 4096,
    "intermediate": 1536,
    "routing": "RenormalizeNaive",
}
"""The experts of Qwen3-235B: https://huggingface.co/Qwen/Qwen3-235B-A22B/blob/main/config.json."""

MOVED: Mapping[str, Mapping[str, Any]] = {
    "base": {},
    "tp8": {"tp": 8},
    "ep8": {"ep": 8},
    "dp8": {"ep": 8, "dp": 8},
    "batched": {"ep": 8, "dp": 8, "all2all": "deepep_low_latency"},
    "deepep_v2": {"ep": 8, "dp": 8, "all2all": "deepep_v2"},
    "moonep": {"ep": 8, "dp": 8, "all2all": "moonep"},
    "lora": {"lora": True},
    "bias": {"bias": True},
    "lora_bias": {"lora": True, "bias": True},
    "hash": {"hash_routing": True},
    "decomposed": {"decomposed": True},
    "limit": {"swiglu_limit": 10},
    "DeepseekV4": {"routing": "DeepseekV4"},
    "experts992": {"experts": 992},
    "experts1024": {"experts": 1024},
    "hidden2880": {"hidden": 2880},
    "intermediate2880": {"intermediate": 2880},
}
"""Layers that differ from the base in one thing, by what differs."""

_SWIGLUOAI: Mapping[str, Any] = {"swiglu_alpha": 1.702, "swiglu_beta": 1.0}
"""Constants of gpt-oss (transformers/models/gpt_oss/modeling_gpt_oss.py); another value stands for any other."""

_OTHER: Mapping[str, Any] = {"swiglu_alpha": 1.5, "swiglu_beta": 2.0}


def moved() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and scheme of every layer that is asked about."""
    yield from MOVED.items()
    for name in activations():
        yield name, {"function": name}
        yield f"{name}+swiglu", {"function": name, **_SWIGLUOAI}
        yield f"{name}+other_swiglu", {"function": name, **_OTHER}


def whole(experts: Any, taken: Mapping[str, Keys]) -> str:
    """What the class says of every layer, with each scheme that it takes.

    Args:
        experts: the class.
        taken: name of a scheme -> its quantization keys.
    """
    configs = dict(_configs())
    schemes = taken or {"none": (None, None)}
    granted = grouped(
        ((name, grouped(_answers(experts, configs, keys), "; ")) for name, keys in schemes.items()), " || "
    )
    first = next(iter(schemes.values()))
    parts = [f"as its device [{granted}]"]
    with _device(experts, False):
        parts.append(f"elsewhere [{grouped(_refusals(experts, configs, first), '; ')}]")
    turned = grouped(_turned(experts, configs["base"], first), "; ")
    return " ".join(parts + ([f"turned [{turned}]"] if turned else []))


def _configs() -> Iterator[tuple[str, Any]]:
    for name, scheme in moved():
        try:
            yield name, moe_config({**BASE, **scheme})
        except (Missing, NotImplementedError):  # the release, or the platform, has no such layer
            continue


def _answers(experts: Any, configs: Mapping[str, Any], keys: Keys) -> Iterator[tuple[str, str]]:
    with _device(experts, True):
        for name, config in configs.items():
            yield name, _ask(experts, config, keys)
        yield "another_format", _ask(experts, configs["base"], keys, other_format=True)


def _refusals(experts: Any, configs: Mapping[str, Any], keys: Keys) -> Iterator[tuple[str, str]]:
    for name, config in configs.items():
        yield name, _ask(experts, config, keys)


def _ask(experts: Any, config: Any, keys: Keys, *, other_format: bool = False) -> str:
    formats = importlib.import_module(KERNEL).FusedMoEActivationFormat
    try:
        own = experts.activation_format()
        shape = next(form for form in formats if form is not own) if other_format else own
        accepted, reason = experts.is_supported_config(experts, config, *keys, shape)
    except Exception as error:  # a class that cannot answer has given its answer
        return f"raises {type(error).__name__}: {said(error)}".rstrip(": ")
    return "takes" if accepted else said(reason or "refused without a word")


def _device(experts: Any, answer: bool) -> Any:
    if not hasattr(experts, _DEVICE):
        return nullcontext()
    return patch.object(experts, _DEVICE, staticmethod(lambda: answer))


# ---- what the module of the class asks of the installation


def _turned(experts: Any, config: Any, keys: Keys) -> Iterator[tuple[str, str]]:
    """The class with each ``has_package()`` of its module answered otherwise, on its own device and on this one."""
    for module, name, question in _questions(experts):
        answer = not question()
        with patch.object(module, name, lambda answer=answer: answer):
            here = _here(experts)
            with _device(experts, True):
                yield f"{name}={answer}", f"{here}, {_ask(experts, config, keys)}"


def _questions(experts: Any) -> Iterator[tuple[Any, str, Callable[[], bool]]]:
    for module in dict.fromkeys(sys.modules.get(cls.__module__) for cls in experts.__mro__):
        if module is None or not module.__name__.startswith("vllm."):
            continue
        for name, value in vars(module).items():
            if name.startswith("has_") and callable(value) and not inspect.signature(value).parameters:
                yield module, name, value


def _here(experts: Any) -> str:
    try:
        return "device" if experts._supports_current_device() else "no device"
    except NotImplementedError:
        return "device unanswered"


# ---- classes that are made of two


_OF_BOTH: Mapping[str, tuple[Any, ...]] = {
    "_supports_current_device": (),
    "_supports_no_act_and_mul": (),
    "_supports_quant_scheme": (None, None),
    "_supports_activation": (None,),
    "_supports_parallel_config": (None,),
    "_supports_routing_method": (None, None, None),
    "_supports_shape": (4096,),
}
"""Predicate -> arguments that say nothing: the answer comes from the halves."""


def halves(experts: Any) -> str:
    """A class that leaves its two halves to subclasses, asked with halves that say yes and no; else empty."""
    try:
        experts.get_clses()
    except NotImplementedError:
        return grouped((name, _of_both(experts, name, arguments)) for name, arguments in _OF_BOTH.items())
    except AttributeError:
        return ""
    return ""


def _of_both(experts: Any, predicate: str, arguments: Iterable[Any]) -> str:
    if predicate not in vars(experts):
        return "not of its halves"
    answers = []
    for pair in itertools.product((True, False), repeat=2):
        clses = tuple(types.SimpleNamespace(**{predicate: lambda *_, answer=answer: answer}) for answer in pair)
        pretended = type(experts.__name__, (experts,), {"get_clses": staticmethod(lambda clses=clses: clses)})
        answers.append(f"{pair[0]:d}{pair[1]:d}={bool(getattr(pretended, predicate)(*arguments)):d}")
    return " ".join(answers)
