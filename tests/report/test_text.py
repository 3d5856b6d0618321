from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.text import capped, counted, from_difference, listed, natural, one_line

HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)


@given(text=HOSTILE)
def test_foreign_text_becomes_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.encode("utf-8").decode("utf-8") == line
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0x202A <= ord(char) <= 0x202E for char in line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("  a\n\tb\r\nc ", "a b c"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb\udc80", "a\\u202eb\\udc80"),
        ("", ""),
    ],
)
def test_what_is_invisible_is_spelt_out(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_long_text_is_cut_visibly() -> None:
    assert one_line("x" * 10_000, limit=5) == "xxxx…"


@pytest.mark.parametrize(
    ("text", "other", "shown"),
    [
        ("A: yes; B: no", "A: yes; B: yes", "… B: no"),
        ("A: yes | B: no", "A: yes | C: no", "… B: no"),
        ("A: yes; B: no", "B: no", "A: yes; B: no"),
        ("A: yes; B: no", "A: yes; B: no", "A: yes; B: no"),
        ("A: yes", "A: no; B: a long one", "A: yes"),
    ],
)
def test_a_long_text_starts_where_it_differs_from_another(text: str, other: str, shown: str) -> None:
    assert from_difference(text, other, limit=10) == shown


@pytest.mark.parametrize(
    ("names", "universe", "text"),
    [
        (["gfx950", "gfx1100", "gfx950"], [], "gfx950, gfx1100"),
        (["a", "b"], ["a", "b"], "all 2"),
        (["a"], ["a"], "a"),
        (["a", "b", "c"], ["a", "b", "c", "d"], "all but d"),
        (["a", "b"], ["a", "b", "c"], "a, b"),
        ([f"n{i}" for i in range(9)], [], "n0, n1, n2, n3, n4, n5 +3 more"),
        ([], ["a", "b"], ""),
    ],
)
def test_names_are_listed_compactly(names: list[str], universe: list[str], text: str) -> None:
    assert listed(names, universe) == text


def test_numbers_sort_by_value_however_long() -> None:
    assert sorted(["a10", "a9", "b", "a009", "a" + "9" * 9000], key=natural) == [
        "a9",
        "a009",
        "a10",
        "a" + "9" * 9000,
        "b",
    ]


@given(texts=st.lists(st.text()))
def test_any_names_can_be_sorted(texts: list[str]) -> None:
    assert Counter(sorted(texts, key=natural)) == Counter(texts)


def test_what_is_left_out_is_counted() -> None:
    assert capped(["a", "b", "c"], 2, "item", "here") == ["a", "b", "... 1 item more in here"]
    assert capped(["a", "b"], 2, "item", "here") == ["a", "b"]
    assert counted(1, "cell") == "1 cell"
    assert counted(0, "cell") == "0 cells"
