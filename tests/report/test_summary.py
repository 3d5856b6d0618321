from __future__ import annotations

import random
from types import ModuleType

from harness.model.record import Outcome
from harness.model.subject import Aiter
from harness.model.target import Attachment
from harness.report.summary import ROWS, sources, subject_lines, summarise, tally


def test_the_order_of_records_does_not_matter(samples: ModuleType) -> None:
    run = samples.realistic(faulty=True)
    shuffled = list(run.records)
    random.Random(1).shuffle(shuffled)
    assert summarise(run) == summarise(run.model_copy(update={"records": tuple(shuffled)}))


def test_the_verdict_line_names_counts_and_subject(samples: ModuleType) -> None:
    assert summarise(samples.realistic(faulty=True)).verdict_line == (
        "gfxloop: FAILED: 522 passed, 36 failed, 18 unsupported on pypi:0.28.0"
    )
    assert summarise(samples.realistic(faulty=False)).verdict_line.startswith("gfxloop: PASSED: 558 passed, 0 failed, ")


def test_an_empty_or_cut_off_run_has_not_passed(samples: ModuleType) -> None:
    assert summarise(samples.run()).verdict_line == "gfxloop: FAILED: 0 passed, 0 failed on pypi:0.29.0"
    assert not summarise(samples.run(samples.record(), cells=2)).gate.passed


def test_outcomes_are_told_in_their_own_order() -> None:
    counts = {Outcome.PASSED: 1, Outcome.TIMED_OUT: 2, Outcome.FAILED: 3}
    assert tally(counts) == "1 passed, 3 failed, 2 timed out"


def test_the_header_says_what_is_attached(samples: ModuleType) -> None:
    simulated = dict(summarise(samples.realistic(faulty=False)).header)
    assert simulated["attached"] == "none"
    assert simulated["simulated"].startswith("gfx90a/MI250X, gfx942/MI300X")
    assert simulated["simulated"].endswith("sm90/H100, cpu")
    mixed = samples.run(
        samples.record("a", attachment=Attachment.ATTACHED), samples.record("b", target="cpu", device="cpu")
    )
    header = dict(summarise(mixed).header)
    assert (header["attached"], header["simulated"]) == ("gfx942/MI300X", "cpu")


def test_a_target_both_simulated_and_attached_has_two_lines(samples: ModuleType) -> None:
    run = samples.run(samples.record("a", attachment=Attachment.ATTACHED), samples.record("b"))
    lines = [(line.name, line.attachment, line.outcomes) for line in summarise(run).targets]
    assert lines == [
        ("gfx942/MI300X", Attachment.ATTACHED, {Outcome.PASSED: 1}),
        ("gfx942/MI300X", Attachment.SIMULATED, {Outcome.PASSED: 1}),
    ]


def test_the_subject_is_told_whole(samples: ModuleType) -> None:
    subject = samples.manifest().subject.model_copy(
        update={
            "aiter": Aiter(spec="tables:t", mode="tables", digest="abc"),
            "env": {"B": "2", "A": "1"},
            "packages": {"flash_attn": True, "deep_gemm": False},
        }
    )
    assert subject_lines(subject) == (
        ("subject", "pypi:0.29.0 (vLLM 0.29.0)"),
        ("digest", "dpypi:0.29.0"),
        ("AITER", "tables:t (digest abc)"),
        ("environment", "A=1, B=2"),
        ("packages", "-deep_gemm, +flash_attn"),
    )


def test_sources_are_told_once_with_their_targets() -> None:
    lines = ("gfx942/MI300X simulated (a; b (c))", "gfx950 attached (b (c))", "cpu: no source")
    assert sources(lines) == (
        ("a", ("gfx942/MI300X",)),
        ("b (c)", ("gfx942/MI300X", "gfx950")),
        ("cpu: no source", ()),
    )


def test_the_command_that_asks_one_cell_again_names_the_subject(samples: ModuleType) -> None:
    assert summarise(samples.run()).reproduce == "gfxloop reproduce ID --subject pypi:0.29.0 --aiter stand-in"


def test_a_summary_stays_small_however_many_cells_there_are(samples: ModuleType) -> None:
    small, large = (summarise(samples.realistic(faulty=True, models=models)) for models in (2, 20))
    assert len(small.overview) == len(large.overview) <= ROWS
    assert len(small.families) == len(large.families)
    assert len(small.undecided) == len(large.undecided)
