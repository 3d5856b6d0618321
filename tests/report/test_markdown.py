from __future__ import annotations

from types import ModuleType

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.model.cell import Surface
from harness.model.record import Candidate, Finding, Outcome
from harness.report.markdown import FAULTS, markdown
from harness.report.summary import summarise
from harness.report.text import one_line

HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=60) | st.text(
    "`|\\<>@#*_[]()!\n-&; a", max_size=40
)
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def flat(text: str) -> list[Token]:
    return [child for token in PARSER.parse(text) for child in (token, *(token.children or ()))]


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
            samples.record("c", surface=Surface.PLATFORM, family=words, kernel=words, chosen=words, target=words),
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
    assert "- attached: `none`\n- simulated: `gfx90a/MI250X, gfx942/MI300X, " in text
    assert "- `isa_has_instruction` at `vllm.TorchScaledMM.is_supported` (linear): 36 failed on `gfx1100`\n" in text
    assert (
        "  - reproduce: `gfxloop reproduce route/linear/gfx1100.RX7900XTX/aiter_off/fp8_block/model0.tp8/gate_up`"
        in text
    )
    assert "`fp8_block`, `fp8_static`, 288 cells:\n\n| on | gets (cells) |\n" in text
    assert "| `gfx90a` | `ChannelWiseTorch` x36 |" in text
    assert "- `TorchScaledMM`: `requires compute capability 89, gfx90a has none` [architecture] on `gfx90a`\n" in text
    assert "| `gfx1100/RX7900XTX` | simulated | 36 passed, 36 failed |" in text
    titles = ("Failures", "What is chosen", "Not decided", "Targets", "How to reproduce")
    order = [text.index(f"\n## {title}") for title in titles]
    assert order == sorted(order)


def test_undecided_cells_say_why_and_what_to_do(samples: ModuleType) -> None:
    text = markdown(summarise(samples.realistic(faulty=True)))
    assert (
        "- 18 unsupported on `sm90`\n"
        "  - `no entry point: gptq`\n"
        "  - to do: `nothing, unless the subject should have what the reason names`\n"
        "  - families: `wna16` x18\n"
    ) in text


def test_facts_and_gates_are_a_grid_at_the_end(samples: ModuleType) -> None:
    facts = {"surface": Surface.PLATFORM, "family": "facts", "kernel": "on_cdna"}
    records = [samples.record("a", chosen="True", **facts), samples.record("b", chosen="False", device="X", **facts)]
    text = markdown(summarise(samples.run(*records)))
    assert text.endswith(
        "## Platform facts and gates\n\n"
        "| platform facts: `facts` | `gfx942/MI300X` | `gfx942/X` |\n"
        "| --- | --- | --- |\n"
        "| `on_cdna` | `True` | `False` |\n"
    )
    assert "What is chosen" not in text


def test_the_page_says_what_it_leaves_out_and_how_to_ask_again(samples: ModuleType) -> None:
    text = markdown(summarise(samples.realistic(faulty=False)))
    assert "One cell: `gfxloop reproduce ID --subject pypi:0.29.0 --aiter stand-in`, with the ID of any record." in text
    assert "Left out here: the single cells with their evidence" in text
    assert "| matrix | `m1` |" in text


def test_a_clean_page_has_no_failures_and_thousands_of_records_fit_one_page(samples: ModuleType) -> None:
    text = markdown(summarise(samples.realistic(faulty=False, models=20)))
    assert "## Failures" not in text
    assert len(text.splitlines()) < 120
    assert len(text) < 8_000


def test_a_reason_that_vllm_does_not_give_is_said_so(samples: ModuleType) -> None:
    silent = samples.record(candidates=(Candidate(name="K", accepted=False),))
    assert "- `K`: no reason given on `gfx942`" in markdown(summarise(samples.run(silent)))


def test_what_does_not_fit_is_counted(samples: ModuleType) -> None:
    records = [samples.record(str(n), outcome=Outcome.FAILED, kernel=f"k{n}") for n in range(FAULTS + 1)]
    assert "... 1 item more in `check.json`" in markdown(summarise(samples.run(*records)))
