"""shapes: layer sizes as text, and what one rank holds of them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.matrix.shapes import MAX_TP, LayerShape, Model, layers_of, parse_shape
from harness.model.cell import Layer
from harness.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "tp", "shape"),
    [
        ("1536 x 7168", 8, (1536, 7168)),
        ("24576/tp x 1536", 8, (3072, 1536)),
        ("128/tp*192 x 1536", 8, (3072, 1536)),
        ("64/tp*128 + max(4/tp, 1)*256 x 4096", 1, (8192 + 1024, 4096)),
        ("64/tp*128 + max(4/tp, 1)*256 x 4096", 4, (2048 + 256, 4096)),
        ("64/tp*128 + max(4/tp, 1)*256 x 4096", 8, (1024 + 256, 4096)),
        ("7168 x 18432/tp", 8, (7168, 2304)),
    ],
)
def test_a_shape_is_what_one_rank_holds(text, tp, shape):
    assert parse_shape(text).at(tp) == shape


@pytest.mark.parametrize(
    "text",
    ["", "12", "1 x 2 x 3", "1x2", "a x b", "1/tp/tp x 2", "-1 x 2", "1 x 0", "max(4, 1) x 2", "max(4/tp, 0) x 2",
     "max(4/tp, 5) x 2", "1 + x 2", "1 ** 2 x 3", "9999999999 x 1", "1 x 1" + " " * 300],
)  # fmt: skip
def test_text_that_is_no_shape_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_shape(text)


@pytest.mark.parametrize(
    ("text", "tp", "why"),
    [
        ("64/tp*128 x 4", 3, "64 is not divisible"),
        ("64/tp*128 x 4", 128, "64 is not divisible"),
        ("max(4/tp, 1)*256 x 4", 6, "cannot be copied evenly"),
        ("8 x 8", 0, "between 1 and"),
        ("8 x 8", MAX_TP + 1, "between 1 and"),
        ("999999999*999999999 x 4", 1, "is not a weight's shape"),
    ],
)
def test_a_size_that_does_not_divide_is_refused(text, tp, why):
    with pytest.raises(ValueError, match=why):
        parse_shape(text).at(tp)


@given(heads=st.integers(1, 64), kv=st.integers(1, 64), tp=st.integers(1, 64))
def test_ranks_together_hold_every_head_and_copies_only_when_there_are_too_few(heads, kv, tp):
    """The rule of vLLM's QKVParallelLinear."""
    assume(heads % tp == 0 and (kv % tp == 0 or tp % kv == 0))
    n, _ = parse_shape(f"{heads}/tp*128 + max({kv}/tp, 1)*256 x 64").at(tp)
    assert n == heads // tp * 128 + max(1, kv // tp) * 256


@given(st.text("0123456789/tpmax(), *+", max_size=40))
def test_any_text_is_a_shape_or_a_value_error(text):
    try:
        shape = parse_shape(text)
    except ValueError:
        return
    assert all(size > 0 for size in shape.at(1))


MODEL = Model("m", "s", (2, 4), ("fp8",), (LayerShape("o", parse_shape("64 x 32/tp"), "s"),))


def test_layers_of_takes_any_tensor_parallel_size_that_divides():
    assert layers_of(MODEL, 16) == (Layer("o", 64, 2),)


def test_layers_of_refuses_a_size_that_does_not_divide_and_says_which_are_used():
    with pytest.raises(UsageError, match=r"m, layer o: 32 is not divisible .*The matrix uses 2, 4\."):
        layers_of(MODEL, 3)
