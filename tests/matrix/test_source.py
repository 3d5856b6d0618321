"""source.read: the YAML subset, and where things stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from harness.matrix.source import MAX_BYTES, MAX_DEPTH, MAX_REPORTED, Mark, Problems, Source, read
from harness.model.errors import MatrixError


@pytest.fixture
def parse(tmp_path: Path):
    def parsed(text: str | bytes) -> Source:
        path = tmp_path / "f.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path)

    return parsed


def test_plain_values_get_their_types_and_quoted_ones_stay_text(parse):
    tree = parse("{a: 1, b: '1', c: true, d: False, e: yes, f: -3, g: ~, h: 2026-01-31, i: none}").tree
    values = [1, "1", True, False, "yes", -3, None, "2026-01-31", "none"]
    assert list(tree.values()) == values
    assert list(map(type, tree.values())) == list(map(type, values))


@pytest.mark.parametrize("number", ["1.5", "0x10", "0o7", "1e3", ".5", ".inf", "-.5", "007", "1_000", "9" * 40])
def test_a_number_that_is_no_plain_integer_is_refused_rather_than_guessed(parse, number):
    with pytest.raises(MatrixError, match=r"f\.yaml:1:4: a number of this form \(got '"):
        parse(f"a: {number}")


def test_every_value_and_key_has_its_place(parse):
    source = parse("a: 1\nb:\n  - {c: x}\n  - y\n")
    assert source.mark(("b", 0, "c")) == Mark(3, 9)
    assert source.mark(("b", 0, "c"), key=True) == Mark(3, 6)
    assert source.mark(("b", 1)) == Mark(4, 5)
    assert source.where(("a",)).endswith("f.yaml:1:4")


def test_a_place_that_is_not_in_the_file_is_that_of_its_container(parse):
    source = parse("a:\n  b: {c: 1}\n")
    assert source.mark(("a", "b", "missing", 3)) == source.mark(("a", "b")) == Mark(2, 6)
    assert source.mark(("nothing",)) == Mark(1, 1)


def test_the_digest_is_that_of_the_bytes(parse):
    assert parse("a: 1").digest == parse("a: 1").digest
    assert parse("a: 1").digest != parse("a: 1 ").digest


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("", "1:1", "the file is empty"),
        ("# nothing\n", "1:1", "the file is empty"),
        ("a: 1\n\xff".encode("latin-1"), "2:1", "not UTF-8 (got 'byte 0xff')"),
        ("a:\n\t- b", "2:1", "Indent with blanks, not tabs."),
        ("a: [b}", "1:6", "not YAML"),
        ("a: 'b", "1:6", "not YAML"),
        ("a: &x 1", "1:4", "anchors and aliases are not allowed (got 'x')"),
        ("a: *x", "1:4", "anchors and aliases are not allowed (got 'x')"),
        ("a: !!python/object:os.system x", "1:4", "tags are not allowed"),
        ("a: 1\n---\nb: 2", "2:1", "a second document"),
        ("? [a]\n: b", "1:3", "a key that is not text"),
        ("a: 1\nb: 2\na: 3", "3:1", "duplicate key (got 'a'). It is already at line 1, column 1."),
        ("x: {a: 1, a: 2}", "1:11", "duplicate key (got 'a')"),
        ("[" * 40, f"1:{MAX_DEPTH + 1}", "nested too deeply"),
        ("a: " + "b" * MAX_BYTES, "1:1", "the file is too large"),
        ('a: "\\UFFFFFFFF"', "1:1", "not YAML (got 'OverflowError"),
        ("%YAML 7.0\n---\na: 1", "1:1", "not YAML"),
        ("a: \x00", "1:1", "not YAML"),
    ],
)
def test_text_outside_the_subset_is_refused_with_its_place(parse, text, place, what):
    with pytest.raises(MatrixError) as caught:
        parse(text)
    assert f"f.yaml:{place}: " in str(caught.value)
    assert what in str(caught.value)


def test_an_anchored_bomb_is_refused_before_it_unfolds(parse):
    layers = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 30)]
    with pytest.raises(MatrixError, match="anchors and aliases"):
        parse("\n".join(layers))


def test_what_is_inside_a_duplicate_is_not_reported_as_duplicate_too(parse):
    with pytest.raises(MatrixError) as caught:
        parse("a: {x: 1}\na: {x: 2}\n")
    assert str(caught.value).count("duplicate key") == 1


def test_problems_are_reported_together_in_the_order_of_the_file_and_not_without_end(parse):
    with pytest.raises(MatrixError) as caught:
        parse("b: *x\nc: *y\n")
    assert [line.split(": ")[0][-3:] for line in str(caught.value).splitlines()] == ["1:4", "2:4"]
    problems = Problems(Path("f.yaml"))
    for line in range(MAX_REPORTED - 1):
        problems.add(Mark(line, 1), "wrong")
    with pytest.raises(MatrixError, match=f"reading stopped at {MAX_REPORTED} problems"):
        problems.add(Mark(MAX_REPORTED, 1), "wrong")


def test_a_file_that_cannot_be_read_is_an_error_of_the_matrix(tmp_path):
    with pytest.raises(MatrixError, match="cannot be read"):
        read(tmp_path / "absent.yaml")
    with pytest.raises(MatrixError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(MatrixError, match="cannot be read"):
        read(Path("nul\0byte"))


_TREES = st.recursive(
    st.integers(-(10**9), 10**9) | st.booleans() | st.text(st.characters(codec="ascii", categories=["L", "Nd"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc_", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(tree=st.dictionaries(st.text("abc_", min_size=1), _TREES, min_size=1, max_size=4))
def test_what_ruamel_writes_is_read_back_alike(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("law") / "f.yaml"
    with path.open("w") as stream:
        YAML(typ="safe", pure=True).dump(tree, stream)
    assert read(path).tree == tree
