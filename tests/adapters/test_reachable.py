"""Reading operators out of source. The sources are small modules of ours that stand where vLLM's would be."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.adapters.reachable import reached_by_methods

HEAD = """\
import torch
from vllm.platforms import current_platform


class Kernel:
"""

Read = Callable[..., Mapping[str, bool]]


class Platform:
    """As vLLM's platform object: its questions are methods of a class in ``vllm.platforms``."""

    def __init__(self, rocm: bool) -> None:
        self._rocm = rocm

    def is_rocm(self) -> bool:
        return self._rocm


Platform.__module__ = "vllm.platforms.interface"
Platform.is_rocm.__module__ = "vllm.platforms.interface"


@pytest.fixture
def declared() -> Iterator[None]:
    library = torch.library.Library("_gfxloop_C", "FRAGMENT")
    library.define("there(Tensor x) -> Tensor")
    yield
    library._destroy()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, declared: None) -> Read:
    """The operators that ``apply`` of a class reaches, whose body is given; ``beside`` is more of its module."""

    def load(body: str, beside: str = "", rocm: bool = True, **values: Any) -> Mapping[str, bool]:
        platforms = types.ModuleType("vllm.platforms")
        vars(platforms)["current_platform"] = Platform(rocm)
        monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
        path = tmp_path / "sample.py"
        path.write_text(f"{beside}\n{HEAD}{body}")
        spec = importlib.util.spec_from_file_location("vllm.sample", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "vllm.sample", module)
        vars(module).update(values)
        spec.loader.exec_module(module)
        return reached_by_methods(module.Kernel, ("apply", "absent"))

    return load


def test_a_plain_call_is_sure(read: Read) -> None:
    assert read("    def apply(self, x):\n        return torch.ops._C.f(x)") == {"_C::f": True}


def test_calls_are_followed_through_own_methods_and_functions_of_the_subject(read: Read) -> None:
    body = "    def apply(self, x):\n        return self.inner(x)\n    def inner(self, x):\n        return wrapper(x)"
    assert read(body, "def wrapper(x):\n    return torch.ops._C.f.default(x)") == {"_C::f": True}


def test_the_body_of_an_operator_that_the_subject_registers_is_read_too(read: Read) -> None:
    beside = "def rocm_gemm_impl(x):\n    return torch.ops._rocm_C.wvSplitK(x)"
    body = "    def apply(self, x):\n        return torch.ops.vllm.rocm_gemm(x)"
    assert read(body, beside) == {"vllm::rocm_gemm": True, "_rocm_C::wvSplitK": True}


@pytest.mark.parametrize(("rocm", "found"), [(True, {"_C::f": True}), (False, {"_C::g": True})])
def test_a_question_for_the_platform_is_asked(read: Read, rocm: bool, found: Mapping[str, bool]) -> None:
    body = """\
    def apply(self, x):
        if current_platform.is_rocm():
            return torch.ops._C.f(x)
        return torch.ops._C.g(x)"""
    assert read(body, rocm=rocm) == found


def test_a_question_decides_beside_data(read: Read) -> None:
    body = """\
    def apply(self, x):
        if not current_platform.is_rocm() and x.shape[0] > 4:
            torch.ops._C.f(x)
        return torch.ops._C.g(x) if x.shape[0] > 8 or current_platform.is_rocm() else torch.ops._C.h(x)"""
    assert read(body) == {"_C::g": True}


def test_either_way_of_a_condition_on_data_is_sure(read: Read) -> None:
    body = """\
    def apply(self, x, bias=None):
        if x.shape[0] <= 4 and (bias is None or bias.dtype == x.dtype):
            return torch.ops._C.f(x)
        return torch.ops._C.g(x)"""
    assert read(body) == {"_C::f": True, "_C::g": True}


def test_nothing_is_sure_behind_the_state_of_the_object(read: Read) -> None:
    body = """\
    def apply(self, x):
        if self.use_f:
            return torch.ops._C.f(x)
        return torch.ops._C.g(x)"""
    assert read(body) == {"_C::f": False, "_C::g": False}


def test_a_function_that_is_not_asked_makes_nothing_sure(read: Read) -> None:
    body = "    def apply(self, x):\n        return torch.ops._C.f(x) if is_good() else torch.ops._C.g(x)"
    assert read(body, "def is_good():\n    return True") == {"_C::f": False, "_C::g": False}


@pytest.mark.parametrize(("name", "found"), [("there", {"_C::f": True}), ("not_there", {"_C::g": True})])
def test_hasattr_of_operators_is_asked(read: Read, name: str, found: Mapping[str, bool]) -> None:
    body = f"""\
    def apply(self, x):
        if hasattr(torch.ops._gfxloop_C, "{name}"):
            return torch.ops._C.f(x)
        return torch.ops._C.g(x)"""
    assert read(body) == found


def test_constants_go_with_a_call_and_defaults_where_it_gives_none(read: Read) -> None:
    beside = """\
def wrapper(x, mode, fused=False):
    if mode == "one":
        torch.ops._C.f(x)
    if fused:
        torch.ops._C.g(x)"""
    assert read("    def apply(self, x):\n        wrapper(x, 'one')", beside) == {"_C::f": True}
    both = {"_C::f": True, "_C::g": True}
    assert read("    def apply(self, x, **more):\n        wrapper(x, **more)", beside) == both


def test_a_function_that_is_kept_for_later_counts_as_called(read: Read) -> None:
    body = """\
    def apply(self, x):
        gemm = wrapper
        return gemm(x)"""
    assert read(body, "def wrapper(x):\n    return torch.ops._C.f(x)") == {"_C::f": True}


def test_what_follows_a_raise_and_what_a_handler_does_is_not_sure(read: Read) -> None:
    body = """\
    def apply(self, x):
        try:
            torch.ops._C.f(x)
        except RuntimeError:
            torch.ops._C.g(x)
        raise NotImplementedError
        torch.ops._C.h(x)"""
    assert read(body) == {"_C::f": True, "_C::g": False}


def test_recursion_ends(read: Read) -> None:
    assert read("    def apply(self, x):\n        torch.ops._C.f(x)\n        return self.apply(x)") == {"_C::f": True}


def test_a_class_without_the_methods_reaches_nothing(read: Read) -> None:
    assert read("    pass") == {}
