from __future__ import annotations

from types import ModuleType

from harness.compare.compare import compare
from harness.model.record import Candidate, Finding, Outcome
from harness.model.run import Verdict
from harness.report.changes import Side, summarise_comparison


def test_cells_that_changed_alike_are_one_entry_with_both_reasons(samples: ModuleType) -> None:
    summary = summarise_comparison(compare(samples.realistic(faulty=True), samples.realistic(faulty=False)))
    (change,) = summary.told
    assert (change.verdict, change.rerouted, change.cells, change.targets) == (Verdict.FIXED, True, 36, "gfx1100")
    assert change.before == Side(
        "TorchScaledMM",
        "failed",
        ("gfx1100 has no FP8 matrix instruction, but TorchScaledMM was chosen", "ChannelWiseTorch: not reached"),
        0,
    )
    assert change.after == Side(
        "ChannelWiseTorch",
        "passed",
        ("every rule holds", "TorchScaledMM: refused: requires compute capability 89, gfx1100 has none"),
        0,
    )
    assert (
        summary.verdict_line
        == "gfxloop: PASSED: 0 regressed, 540 unchanged, 36 fixed on pypi:0.29.0 against pypi:0.28.0"
    )


def test_without_a_kernel_every_candidates_reason_is_told(samples: ModuleType) -> None:
    refusals = tuple(Candidate(name=name, accepted=False, reason=f"not {name}") for name in ("A", "B"))
    bare = samples.record("y", chosen=None, candidates=(), reason="no list")
    before = samples.run(samples.record("x"), samples.record("y"))
    after = samples.run(samples.record("x", chosen=None, candidates=refusals), bare)
    (change,) = summarise_comparison(compare(before, after)).told
    assert change.after == Side("no kernel", "passed", ("A: refused: not A", "B: refused: not B", "no list"), 0)


def test_the_same_kernel_after_other_refusals_tells_the_refusals(samples: ModuleType) -> None:
    fewer = samples.record(candidates=(Candidate(name="TritonBlock", accepted=True),))
    (change,) = summarise_comparison(compare(samples.run(samples.record()), samples.run(fewer))).told
    assert change.verdict is Verdict.REROUTED
    assert change.before is not None
    assert change.before.reasons == ("every rule holds", "AiterBlock: refused: AITER is off")


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


def test_regressions_come_first(samples: ModuleType) -> None:
    before = samples.run(samples.record("a", outcome=Outcome.FAILED), samples.record("b"), samples.record("c"))
    after = samples.run(
        samples.record("a"), samples.record("b", chosen="X"), samples.record("c", outcome=Outcome.FAILED)
    )
    verdicts = [change.verdict for change in summarise_comparison(compare(before, after)).told]
    assert verdicts == [Verdict.REGRESSED, Verdict.REROUTED, Verdict.FIXED]
