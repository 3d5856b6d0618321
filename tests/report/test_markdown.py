from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.model.record import Candidate, Finding, Outcome
from harness.report.markdown import FAULTS, code, markdown, table
from harness.report.summary import summarise
from harness.report.text import one_line

HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=60) | st.text(
    "`|\\<>@#*_[]()!\n-&; a", max_size=40
)
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def flat(text: str) -> list[Token]:
    return [child for token in PARSER.parse(text) for child in (token, *(token.children or ()))]


def spans(text: str) -> list[str]:
    return [token.content for token in flat(text) if token.type == "code_inline"]


@given(text=HOSTILE)
@example("`")
@example("``a`")
@example("a\\|b")
def test_a_code_span_shows_exactly_the_text(text: str) -> None:
    shown = one_line(text)
    assert spans(f"x {code(text)} y") == ([shown] if shown else [])
    assert spans("\n".join(table(("a", "b"), [[code(text), "c"]]))) == ([shown] if shown else [])


@given(text=HOSTILE)
@example("</details><script>alert(1)</script>")
@example("@everyone see #1 and [x](http://x) ![y](z)\n\n# heading\n| a | b |")
def test_nothing_foreign_becomes_markup(samples: ModuleType, text: str) -> None:
    def page(words: str) -> list[str]:
        records = [
            samples.record(
                "a",
                outcome=Outcome.FAILED,
                family=words,
                kernel=words,
                environment=words,
                model=words,
                chosen=words,
                reason=words,
                target=words,
                candidates=(Candidate(name=words, accepted=False, reason=words),),
                findings=(Finding(rule=words, symbol=words, message=words),),
                reproduce=words,
            ),
            samples.record("b", outcome=Outcome.INDETERMINATE, reason=words),
        ]
        run = samples.run(*records, spec=words, command=words)
        rendered = markdown(summarise(run.model_copy(update={"notes": (words,)})))
        return [token.type for token in flat(rendered) if token.type not in ("text", "code_inline", "softbreak")]

    # The page's own markup is that of a harmless word; an empty text is no code span, and nothing else changes.
    assert page(text if one_line(text) else "x") == page("x")


def test_the_page_says_verdict_failures_routes_refusals_and_targets(samples: ModuleType) -> None:
    text = markdown(summarise(samples.realistic(faulty=True)))
    assert text.startswith(
        "# gfxloop: FAILED\n\n522 passed, 36 failed, 18 unsupported on `pypi:0.28.0`.\n\n- blocks: 36 failed\n"
    )
    assert "- `isa_has_instruction` at `vllm.TorchScaledMM.is_supported`: 36 failed on `gfx1100`" in text
    assert (
        "  - reproduce: `gfxloop reproduce route/linear/gfx1100.RX7900XTX/aiter_off/fp8_block/model0.tp8/gate_up`"
        in text
    )
    assert "| `fp8` | `gfx90a` | `ChannelWiseTorch` x36 |" in text
    assert "  - `TorchScaledMM` refused [architecture]: `requires compute capability 89, gfx90a has none` x36" in text
    assert "| `gfx1100/RX7900XTX` | simulated | 36 passed, 36 failed |" in text
    order = [
        text.index(f"## {title}")
        for title in ("Failures", "What is chosen", "Why", "Not decided", "Targets", "The run")
    ]
    assert order == sorted(order)


def test_a_clean_page_has_no_failures_and_thousands_of_records_fit_one_page(samples: ModuleType) -> None:
    text = markdown(summarise(samples.realistic(faulty=False, models=20)))
    assert "## Failures" not in text
    assert len(text.splitlines()) < 120


def test_a_reason_that_vllm_does_not_give_is_said_so(samples: ModuleType) -> None:
    silent = samples.record(candidates=(Candidate(name="K", accepted=False),))
    assert "`K` refused: no reason given x1" in markdown(summarise(samples.run(silent)))


def test_what_does_not_fit_is_counted(samples: ModuleType) -> None:
    records = [samples.record(str(n), outcome=Outcome.FAILED, kernel=f"k{n}") for n in range(FAULTS + 1)]
    assert "... 1 item more in `check.json`" in markdown(summarise(samples.run(*records)))


@pytest.mark.parametrize("rows", [[], [["a|b"]]])
def test_a_table_without_rows_is_nothing(rows: list[list[str]]) -> None:
    assert table(("t",), rows) == (["| t |", "| --- |", "| a\\|b |"] if rows else [])
