from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from harness.compare.compare import compare
from harness.model.record import Outcome
from harness.report.changes import summarise_comparison
from harness.report.summary import summarise
from harness.report.terminal import FAULTS, console_for, print_check, print_comparison


def page(run: object) -> str:
    stream = io.StringIO()
    print_check(summarise(run), console_for(stream), Path("out/report.md"))  # type: ignore[arg-type]
    return stream.getvalue()


def test_failures_come_before_the_table_and_the_verdict_last(samples: ModuleType) -> None:
    lines = page(samples.realistic(faulty=True)).splitlines()
    fault = next(n for n, line in enumerate(lines) if line.startswith("- isa_has_instruction at"))
    routes = next(n for n, line in enumerate(lines) if line.startswith("family "))
    assert fault < routes
    assert (
        "    reproduce: gfxloop reproduce route/linear/gfx1100.RX7900XTX/aiter_off/fp8_block/model0.tp8/gate_up"
        in lines
    )
    assert lines[-3:] == [
        "blocks: 36 failed",
        "gfxloop: FAILED: 522 passed, 36 failed, 18 unsupported on pypi:0.28.0",
        "report: out/report.md",
    ]


def test_a_pipe_gets_no_colour_and_a_terminal_does(samples: ModuleType) -> None:
    run = samples.realistic(faulty=True)
    assert "\x1b" not in page(run)
    stream = io.StringIO()
    print_check(summarise(run), Console(file=stream, force_terminal=True, color_system="standard"), Path("r"))
    assert "\x1b[1;31mgfxloop: FAILED" in stream.getvalue()


def test_a_clean_run_has_no_section_of_failures(samples: ModuleType) -> None:
    text = page(samples.realistic(faulty=False))
    assert "FAILURES" not in text
    assert "gfxloop: PASSED: 558 passed, 0 failed, 18 unsupported on pypi:0.29.0\n" in text


@pytest.mark.parametrize("hostile", ["[bold red]x[/]", "\x1b[2Jx", "a\nreport: forged", ":smile:", "[/oops]"])
def test_foreign_text_neither_colours_nor_moves_nor_forges(samples: ModuleType, hostile: str) -> None:
    text = page(samples.run(samples.record(outcome=Outcome.FAILED, reason=hostile, chosen=hostile), spec=hostile))
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith("report:")] == ["report: out/report.md"]
    assert hostile.replace("\x1b", "\\x1b").replace("\n", " ") in text


def test_many_failures_are_cut_with_their_number(samples: ModuleType) -> None:
    records = [samples.record(str(n), outcome=Outcome.FAILED, kernel=f"k{n}") for n in range(FAULTS + 3)]
    assert "... 3 items more in out/report.md" in page(samples.run(*records))


def test_a_comparison_tells_both_kernels_and_both_reasons(samples: ModuleType) -> None:
    stream = io.StringIO()
    comparison = compare(samples.realistic(faulty=True), samples.realistic(faulty=False))
    print_comparison(summarise_comparison(comparison), console_for(stream), Path("out/compare.md"))
    text = stream.getvalue()
    assert "- fixed, rerouted: fp8 on gfx1100 (kernel fp8_block, fp8_static): 36 cells\n" in text
    assert "    before TorchScaledMM [failed]\n" in text
    assert "    after  ChannelWiseTorch [passed]\n" in text
    assert "TorchScaledMM: refused: requires compute capability 89, gfx1100 has none\n" in text
    assert text.endswith("on pypi:0.29.0 against pypi:0.28.0\nreport: out/compare.md\n")
