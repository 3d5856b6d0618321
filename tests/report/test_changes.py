from __future__ import annotations

from types import ModuleType

from harness.compare.compare import compare
from harness.model.record import Candidate, Finding, Outcome
from harness.model.run import Verdict
from harness.model.target import Attachment
from harness.report.changes import summarise_comparison
from harness.report.sides import Side


def test_cells_that_changed_alike_are_one_entry_with_both_reasons(samples: ModuleType) -> None:
    summary = summarise_comparison(compare(samples.realistic(faulty=True), samples.realistic(faulty=False)))
    (change,) = summary.told
    assert (change.verdict, change.rerouted, change.cells, change.targets) == (Verdict.FIXED, True, 36, "gfx1100")
    assert change.before == Side(
        "TorchScaledMM",
        "failed",
        (
            "gfx1100 has no FP8 matrix instruction, but TorchScaledMM was chosen",
            "TorchScaledMM: accepted",
            "ChannelWiseTorch: not reached",
        ),
        0,
    )
    assert change.after == Side(
        "ChannelWiseTorch",
        "passed",
        (
            "TorchScaledMM: refused: requires compute capability 89, gfx1100 has none",
            "ChannelWiseTorch: accepted",
        ),
        0,
    )
    assert (
        summary.verdict_line
        == "gfxloop: PASSED: 0 regressed, 540 unchanged, 36 fixed on pypi:0.29.0 against pypi:0.28.0"
    )


def test_the_two_sides_are_headed_with_what_was_attached(samples: ModuleType) -> None:
    attached = samples.run(samples.record(attachment=Attachment.ATTACHED))
    same = dict(summarise_comparison(compare(samples.run(samples.record()), samples.run(samples.record()))).header)
    assert (same["attached"], same["simulated"]) == ("none", "gfx942/MI300X")
    mixed = dict(summarise_comparison(compare(samples.run(samples.record()), attached)).header)
    assert mixed["simulated in the baseline"] == mixed["attached in the candidate"] == "gfx942/MI300X"
    assert mixed["candidate"].startswith("pypi:0.29.0 (vLLM 0.29.0), AITER stand-in")


def test_unchanged_rows_are_only_counted(samples: ModuleType) -> None:
    run = samples.realistic(faulty=False)
    summary = summarise_comparison(compare(run, run))
    assert (summary.told, summary.counted) == ((), ())
    assert summary.verdicts == {Verdict.UNCHANGED: len(run.records)}


def test_other_rows_are_collapsed_and_undecided_ones_keep_their_reason(samples: ModuleType) -> None:
    failed = {"outcome": Outcome.FAILED}
    before = samples.run(samples.record("a"), samples.record("b"), samples.record("k", **failed))
    after = samples.run(
        samples.record("a", outcome=Outcome.INFRA, reason="no GPU"), samples.record("c"), samples.record("k", **failed)
    )
    counted = [
        (change.verdict, change.cells, change.why) for change in summarise_comparison(compare(before, after)).counted
    ]
    assert counted == [
        (Verdict.KNOWN, 1, "failed on both sides: every rule holds"),
        (Verdict.NOT_COMPARABLE, 1, "candidate infra: no GPU"),
        (Verdict.ADDED, 1, "only in the candidate: passed"),
        (Verdict.REMOVED, 1, "only in the baseline: passed"),
    ]


def test_a_known_failure_that_fails_otherwise_is_told(samples: ModuleType) -> None:
    before = samples.record(outcome=Outcome.FAILED)
    after = samples.record(outcome=Outcome.FAILED, findings=(Finding(rule="new", symbol="s", message="m"),))
    (change,) = summarise_comparison(compare(samples.run(before), samples.run(after))).told
    assert (change.verdict, change.why) == (Verdict.KNOWN, "now breaks new at s")


def test_what_matters_most_comes_first(samples: ModuleType) -> None:
    fewer = (Candidate(name="TritonBlock", accepted=True),)
    failed = {"outcome": Outcome.FAILED}
    before = [samples.record(id_, **(failed if id_ == "a" else {})) for id_ in "abcdefghi"]
    after = [
        samples.record("a"),
        *(samples.record(id_, candidates=fewer) for id_ in "bcd"),
        samples.record("e", chosen="Y"),
        *(samples.record(id_, chosen="X") for id_ in "fgh"),
        samples.record("i", **failed),
    ]
    told = summarise_comparison(compare(samples.run(*before), samples.run(*after))).told
    assert [(change.title, change.cells) for change in told] == [
        ("Regressed", 1),
        ("Fixed", 1),
        ("Rerouted to another kernel", 3),
        ("Rerouted to another kernel", 1),
        ("Rerouted: the same kernel, after other candidates", 3),
    ]


def test_a_known_failure_is_headed_by_whether_it_fails_alike(samples: ModuleType) -> None:
    failed, other = samples.record("a", outcome=Outcome.FAILED), samples.record("b", outcome=Outcome.FAILED)
    moved = samples.record("b", outcome=Outcome.FAILED, chosen="X")
    summary = summarise_comparison(compare(samples.run(failed, other), samples.run(failed, moved)))
    assert [change.title for change in summary.told] == ["Failing on both sides, but not in the same way"]
    assert [change.title for change in summary.counted] == ["known (failing on both sides alike)"]
