from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from harness.compare.compare import compare
from harness.model.cell import Surface
from harness.model.record import Candidate, Outcome
from harness.report.changes import summarise_comparison
from harness.report.summary import summarise
from harness.report.terminal import FAULTS, UNDECIDED, console_for, print_check, print_comparison


def page(run: object) -> str:
    stream = io.StringIO()
    print_check(summarise(run), console_for(stream), Path("out/report.md"))  # type: ignore[arg-type]
    return stream.getvalue()


def test_failures_come_before_the_table_and_the_verdict_last(samples: ModuleType) -> None:
    lines = page(samples.realistic(faulty=True)).splitlines()
    fault = next(n for n, line in enumerate(lines) if line.startswith("- isa_has_instruction at"))
    routes = next(n for n, line in enumerate(lines) if line.startswith("CHOSEN "))
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
    assert "\nFIXED\n- fixed, rerouted: fp8 on gfx1100: 36 cells\n" in text
    assert "\nsimulated: gfx90a/MI250X, gfx942/MI300X, " in text
    assert "    before TorchScaledMM [failed]\n" in text
    assert "    after  ChannelWiseTorch [passed]\n" in text
    assert "TorchScaledMM: refused: requires compute capability 89, gfx1100 has none\n" in text
    assert text.endswith("on pypi:0.29.0 against pypi:0.28.0\nreport: out/compare.md\n")


def test_a_full_run_fits_a_page_however_many_models_it_has(samples: ModuleType) -> None:
    lines = page(samples.realistic(faulty=True, models=20)).splitlines()
    assert len(lines) < 40
    assert lines[:4] == [
        "subject:   pypi:0.28.0 (vLLM 0.28.0)",
        "AITER:     stand-in",
        "attached:  none",
        f"simulated: {', '.join('/'.join(dict.fromkeys(target)) for target in samples.TARGETS)}",
    ]


def test_one_line_a_family_and_set_of_targets_with_counted_kernels(samples: ModuleType) -> None:
    lines = page(samples.realistic(faulty=True)).splitlines()
    start = lines.index("fp8    gfx90a                       ChannelWiseTorch 36")
    assert lines[start + 1 : start + 3] == [
        "       gfx942, gfx950               TorchScaledMM 72, AiterBlock 36",
        "       gfx1100, gfx1201, sm90, cpu  TorchScaledMM 144",
    ]


def test_kernels_that_do_not_fit_the_width_are_counted(samples: ModuleType) -> None:
    records = [samples.record(str(n), layer=str(n), chosen=f"{'Long' * 12}{n}LinearKernel") for n in range(5)]
    (line,) = [line for line in page(samples.run(*records)).splitlines() if line.startswith("fp8 ")]
    assert line.endswith(f"{'Long' * 12}1 1 +3 more")
    assert len(line) <= 140


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("TritonInt8ScaledMMLinearKernel", "ConchLinearKernel", "XKernel"), "Conch 1, TritonInt8 1, X 1"),
        (("AKernel", "ALinearKernel"), "AKernel 1, ALinearKernel 1"),
        (("Kernel",), "Kernel 1"),
    ],
)
def test_common_endings_are_left_out_where_names_stay_apart(
    samples: ModuleType, names: tuple[str, ...], shown: str
) -> None:
    text = page(samples.run(*(samples.record(name, layer=name, chosen=name) for name in names)))
    assert f"fp8  gfx942  {shown}\n" in text


def test_facts_and_gates_are_one_line_a_surface(samples: ModuleType) -> None:
    gates = [samples.record(str(n), surface=Surface.AITER_GATE, kernel=f"g{n}") for n in range(9)]
    lost = samples.record("x", surface=Surface.AITER_GATE, outcome=Outcome.UNSUPPORTED, chosen=None)
    text = page(samples.run(*gates, lost))
    assert "\nAITER gates: 10 asked, 9 passed, 1 unsupported, see the report\n" in text
    assert "CHOSEN" not in text


def test_an_undecided_cause_is_two_lines_with_what_to_do(samples: ModuleType) -> None:
    reason = "cannot tell whether the table {} has a row for N={} (pass --aiter tables:DIR)"
    records = [
        samples.record(
            str(n), outcome=Outcome.INDETERMINATE, chosen=None, reason=reason.format("very_long_name " * 9, n)
        )
        for n in range(20)
    ]
    lines = page(samples.run(*records)).splitlines()
    start = lines.index("NOT DECIDED")
    assert lines[start + 1].startswith(
        "- 20 indeterminate (fp8 20), e.g. cannot tell whether the table very_long_name "
    )
    assert len(lines[start + 1]) <= 140
    assert lines[start + 2 : start + 4] == ["    on gfx942. To do: pass --aiter tables:DIR", ""]


def test_at_most_six_undecided_causes_are_told(samples: ModuleType) -> None:
    words = ("red", "green", "blue", "old", "new", "wide", "tall", "low")
    records = [samples.record(word, outcome=Outcome.INFRA, chosen=None, reason=word) for word in words]
    text = page(samples.run(*records))
    assert text.count("- 1 infra (fp8 1): ") == UNDECIDED == 6
    assert "- ... 2 items more in out/report.md\n" in text


def test_a_failure_that_was_there_before_takes_one_reason_a_side(samples: ModuleType) -> None:
    before = samples.record(outcome=Outcome.FAILED)
    refusals = tuple(Candidate(name=name, accepted=False, reason=f"not {name}") for name in ("red", "green", "blue"))
    stream = io.StringIO()
    after = samples.record(outcome=Outcome.FAILED, chosen=None, candidates=refusals)
    comparison = compare(samples.run(before), samples.run(after))
    print_comparison(summarise_comparison(comparison), console_for(stream), Path("out/compare.md"))
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    start = lines.index("after  no kernel (vLLM refuses) [failed]")
    assert lines[start + 1] == "red: refused: not red"
    assert lines[start + 2].endswith(" other reasons")
