from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.report.markup import code, codes, folded, joined, nested, placed, section, table
from harness.report.text import one_line

HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=60) | st.text(
    "`|\\<>@#*_[]()!\n-&; a", max_size=40
)
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def spans(text: str) -> list[str]:
    tokens: list[Token] = [child for token in PARSER.parse(text) for child in (token, *(token.children or ()))]
    return [token.content for token in tokens if token.type == "code_inline"]


@given(text=HOSTILE)
@example("`")
@example("``a`")
@example("a\\|b")
def test_a_code_span_shows_exactly_the_text(text: str) -> None:
    shown = one_line(text)
    assert spans(f"x {code(text)} y") == ([shown] if shown else [])
    assert spans("\n".join(table(("a", "b"), [[code(text), "c"]]))) == ([shown] if shown else [])


@pytest.mark.parametrize("rows", [[], [["a|b"]]])
def test_a_table_without_rows_is_nothing(rows: list[list[str]]) -> None:
    assert table(("t",), rows) == (["| t |", "| --- |", "| a\\|b |"] if rows else [])


def test_an_empty_body_has_no_heading_and_no_fold() -> None:
    assert section("t", []) == folded("t", []) == []
    assert section("t", ["x"]) == ["", "## t", "", "x"]
    assert folded("t", ["x"])[1] == "<summary>t</summary>"


def test_pieces_are_put_together() -> None:
    assert joined(["a", "", "", "", "b", ""]) == "a\n\nb\n"
    assert nested("a", ["b", "c"]) == "- a\n  - b\n  - c"
    assert codes(["a", "b"]) == "`a`, `b`"
    assert (placed("t", "w"), placed("t", "")) == ("`t` (`w`)", "`t`")
