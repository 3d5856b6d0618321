from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.mutation.edits import Edit, edits

CODE = """# é: offsets are in bytes
_POSSIBLE_KERNELS = {"ROCM": [KernelA, KernelB]}
SHAPES = [M, N]

class Kernel:
    SUPPORTED = [torch.float16, torch.bfloat16]

    @if_aiter_supported
    def is_supported(cls, capability):
        if not on_gfx9():
            return False, "needs gfx9"
        if cls.tuned:
            order = [KernelB, KernelA]
        return cls.enabled and on_mi3xx() and capability in (9, "gfx942")

    def forward(self, x):
        if x is None:
            return None

    def is_supported_on_cpu(self):
        if not on_gfx9():
            return False


def select_kernel():
    return [KernelB, KernelA]
"""


def of(kind: str) -> list[Edit]:
    return [edit for edit in edits(CODE) if edit.kind == kind]


def edited(edit: Edit) -> str:
    return edit.apply(CODE.encode()).decode()


@pytest.mark.parametrize(
    ("kind", "symbol", "words"),
    [
        ("drop_guard", "Kernel.is_supported", "if False and (not on_gfx9()):"),
        ("turn_gate", "Kernel.is_supported", "if not (cls.tuned):"),
        ("drop_condition", "Kernel.is_supported", '(on_mi3xx() and capability in (9, "gfx942"))'),
        ("drop_gate", "Kernel.is_supported", "@(lambda function: function)"),
        ("drop_entry", "_POSSIBLE_KERNELS", "[KernelB,]"),
        ("drop_entry", "Kernel.SUPPORTED", "[torch.float16,]"),
        ("swap_priority", "_POSSIBLE_KERNELS", "[KernelB, KernelA]"),
        ("swap_priority", "select_kernel", "[KernelA, KernelB]"),
    ],
)
def test_each_kind_of_decision_can_be_weakened(kind: str, symbol: str, words: str) -> None:
    assert any(edit.symbol == symbol and words in edited(edit) for edit in of(kind))


def test_code_that_does_not_decide_and_shapes_are_left_alone() -> None:
    assert {edit.symbol for edit in edits(CODE)} == {
        "_POSSIBLE_KERNELS",
        "Kernel.SUPPORTED",
        "Kernel.is_supported",
        "select_kernel",
    }


@given(st.sampled_from(sorted(edits(CODE), key=repr)))
def test_an_edit_changes_one_place_and_still_parses(edit: Edit) -> None:
    after = edited(edit)
    assert after != CODE
    ast.parse(after)
    assert after.encode()[: edit.start] == CODE.encode()[: edit.start]
    assert edit.original == CODE.encode()[edit.start : edit.end].decode()
