"""An edit of a deciding function moves its line; what cannot be asked has none."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator

import pytest

from harness.adapters.deciding import decisions_of_class, decisions_of_module

CODE = """
import functools
import os
from vllm.platforms import current_platform

HAS_KERNEL = False
_loaded = True
logger = object()

@functools.cache
def is_supported(head_size: int, use_mla: bool) -> bool:
    if not HAS_KERNEL or not current_platform.is_rocm():
        return False
    if head_size > 256:
        raise ValueError(f"head of {head_size}")
    return not use_mla

def get_backend(vllm_config):
    if vllm_config is not None and vllm_config.cache_config:
        vllm_config.cache_config.block_size = 64
    logger.warning_once("no backend")
    return ["TRITON", "AITER"]

def _arch_is_new(gcn_arch: str) -> bool:
    return gcn_arch.startswith("gfx125")

def is_tuned(n: int, weight: object) -> bool:
    raise AssertionError("no domain for an object")

def is_in_aiter(use_mla: bool) -> bool:
    import aiter
    raise AssertionError("only AITER knows")

def make_metadata(head_size: int):
    raise AssertionError("it decides nothing")

class Backend:
    FAST = False

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size % 32 == 0 and (cls.FAST or head_size < 256)

    @staticmethod
    def supports_sink() -> bool:
        return True

    def supports_object(self) -> bool:
        raise AssertionError("it needs an object")
"""

Lines = Callable[[str], dict[str, str]]


class Platform:
    def is_rocm(self) -> bool:
        return False


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], types.ModuleType]]:
    platforms = types.ModuleType("vllm.platforms")
    vars(platforms)["current_platform"] = Platform()
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)

    def load(code: str) -> types.ModuleType:
        made = types.ModuleType("vllm.deciding")
        monkeypatch.setitem(sys.modules, made.__name__, made)
        exec(compile(code, "vllm/deciding.py", "exec"), vars(made))
        return made

    return load


@pytest.fixture
def lines(module: Callable[[str], types.ModuleType]) -> Lines:
    def ask(code: str) -> dict[str, str]:
        made = module(code)
        return {**dict(decisions_of_module(made)), **dict(decisions_of_class(made.Backend, {}, own=True))}

    return ask


def test_functions_that_decide_are_asked_and_no_others(lines):
    assert set(lines(CODE)) == {
        "is_supported", "get_backend", "_arch_is_new", "supports_head_size", "supports_sink"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("is_supported", "not HAS_KERNEL or ", ""),
        ("is_supported", " or not current_platform.is_rocm()", ""),
        ("is_supported", "> 256", ">= 256"),
        ("is_supported", "return not use_mla", "return True"),
        ("is_supported", 'f"head of {head_size}"', '"too wide"'),
        ("get_backend", '["TRITON", "AITER"]', '["AITER", "TRITON"]'),
        ("get_backend", "= 64", "= 32"),
        ("get_backend", 'logger.warning_once("no backend")', "pass"),
        ("_arch_is_new", "gfx125", "gfx12"),
        ("supports_head_size", "cls.FAST or ", ""),
        ("supports_head_size", "head_size % 32 == 0 and ", ""),
        ("supports_sink", "return True", "return False"),
    ],
)
def test_an_edit_of_a_decision_moves_its_line_alone(lines, name, old, new):
    before, after = lines(CODE), lines(CODE.replace(old, new))
    assert old in CODE
    assert {one for one in before if before[one] != after[one]} == {name}


def test_the_same_code_gives_the_same_lines_without_addresses(lines):
    odd = CODE.replace('["TRITON", "AITER"]', "object()")
    assert lines(odd) == lines(odd)
    assert "0x" not in "".join(lines(odd).values())


def test_nothing_that_was_posed_is_left(module):
    made = module(CODE)
    before = {name: value for name, value in vars(made).items() if name != "__builtins__"}
    list(decisions_of_module(made))
    list(decisions_of_class(made.Backend, {}, own=True))
    assert {name: value for name, value in vars(made).items() if name != "__builtins__"} == before
    assert made.is_supported.cache_info().currsize == 0
    assert made.Backend.FAST is False
    assert "is_rocm" not in vars(sys.modules["vllm.platforms"].current_platform)


def test_what_a_class_has_itself_is_posed_only_where_asked(module):
    made = module(CODE)
    fixed = dict(decisions_of_class(made.Backend, {}, own=False))
    assert "FAST" not in fixed["supports_head_size"]
    assert "FAST" in dict(decisions_of_class(made.Backend, {}, own=True))["supports_head_size"]
