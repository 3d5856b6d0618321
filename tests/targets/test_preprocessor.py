from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.targets.preprocessor import holds, preprocess

MACROS = {"USE_ROCM": True, "OFF": False}


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("USE_ROCM", True),
        ("!USE_ROCM", False),
        ("defined(USE_ROCM) && !defined(OFF)", True),
        ("defined USE_ROCM || defined OFF", True),
        ("defined(OFF) || (defined(USE_ROCM) && defined(NEVER_HEARD_OF))", False),
        ("VLLM_ENABLE_SOMETHING", False),
        ("defined(USE_ROCM) /* why */ // and why not", True),
        ("CUDA_VERSION >= 12080", False),
        ("", False),
    ],
)
def test_a_condition_has_its_value_and_an_unknown_word_is_false(condition: str, value: bool) -> None:
    assert holds(condition, MACROS) is value


def test_kernels_switched_on_by_toolkit_version_are_in_a_cuda_build() -> None:
    assert holds("VLLM_ENABLE_SOMETHING && ENABLE_NVFP4", {"USE_ROCM": False})


def test_every_kind_of_conditional_keeps_the_branch_a_compiler_keeps() -> None:
    text = """\
#ifdef USE_ROCM
rocm
#else
not rocm
#endif  // USE_ROCM
#ifndef USE_ROCM
cuda
#elif defined(OFF)
off
#elif defined(USE_ROCM) && \\
    !defined(OFF)
second
#else
none
#endif
#define USE_ROCM 0
#include "ops.h"
always"""
    kept = preprocess(text, MACROS).split("\n")
    assert kept == ["rocm", "second", "#define USE_ROCM 0", '#include "ops.h"', "always"]


def test_only_the_first_branch_that_holds_is_kept() -> None:
    assert preprocess("#if USE_ROCM\na\n#elif USE_ROCM\nb\n#else\nc\n#endif", MACROS) == "a"


@pytest.mark.parametrize("text", ["#endif\nkept", "#if OFF\n#endif\n#endif\nkept"])
def test_an_endif_too_many_is_no_crash(text: str) -> None:
    assert preprocess(text, MACROS) == "kept"


NAMES = ("A", "B", "C")


Lines = list[tuple[str, list[str] | None]]
"""Text by line, with the conditions under which a compiler keeps it; None for a directive."""


@st.composite
def _conditionals(draw: st.DrawFn, depth: int = 3) -> Lines:
    """Balanced conditionals, nested up to ``depth``."""
    out: Lines = []
    for _ in range(draw(st.integers(1, 3))):
        if depth == 0 or draw(st.booleans()):
            out.append(("text", []))
            continue
        before: list[str] = []
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)):
            out.append((f"#{'elif' if before else 'if'} {name}", None))
            out += _under([name, *before], draw(_conditionals(depth - 1)))
            before.append(f"!{name}")
        if draw(st.booleans()):
            out.append(("#else", None))
            out += _under(before, draw(_conditionals(depth - 1)))
        out.append(("#endif", None))
    return out


def _under(conditions: list[str], lines: Lines) -> Lines:
    return [(line, None if inner is None else conditions + inner) for line, inner in lines]


@given(_conditionals(), st.fixed_dictionaries({name: st.booleans() for name in NAMES}))
def test_a_line_is_kept_exactly_when_all_conditions_around_it_hold(lines: Lines, macros: dict[str, bool]) -> None:
    def is_on(condition: str) -> bool:
        return macros[condition.lstrip("!")] is not condition.startswith("!")

    numbered = [line if where is None else f"line {i}" for i, (line, where) in enumerate(lines)]
    kept = [line for line in preprocess("\n".join(numbered), {"USE_ROCM": True, **macros}).split("\n") if line]
    assert kept == [f"line {i}" for i, (_, where) in enumerate(lines) if where is not None and all(map(is_on, where))]
