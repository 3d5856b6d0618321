from __future__ import annotations

from types import ModuleType

from harness.model.record import Outcome
from harness.report.undecided import undecided

REASON = "cannot tell whether AITER has {} tuned for {}, N={} (pass --aiter path:DIR). If so: {}; if not: {}"


def test_reasons_that_differ_in_names_and_numbers_are_one_entry_with_what_to_do(samples: ModuleType) -> None:
    reasons = [
        REASON.format("A8W8", "gfx950", 1, "True", "False"),
        REASON.format("A8W8", "gfx950", 1, "True", "False"),
        REASON.format("AFP4_X", "gfx1200", 2, "AiterKernel", "TritonKernel"),
    ]
    records = [
        samples.record(str(n), outcome=Outcome.INDETERMINATE, reason=reason, family=f"f{min(n, 1)}")
        for n, reason in enumerate(reasons)
    ]
    (group,) = undecided(records)
    assert (group.cells, group.reasons, group.to_do) == (3, 2, "pass --aiter path:DIR")
    assert group.example == "cannot tell whether AITER has A8W8 tuned for gfx950, N=1."
    assert group.families == (("f1", 2), ("f0", 1))
    assert group.consequences == (
        ("If so: True; if not: False", 2),
        ("If so: AiterKernel; if not: TritonKernel", 1),
    )


def test_outcomes_do_not_mix_and_what_a_reader_can_change_comes_first(samples: ModuleType) -> None:
    records = [
        samples.record("a", outcome=Outcome.UNSUPPORTED, reason="old"),
        samples.record("b", outcome=Outcome.UNSUPPORTED, reason="old"),
        samples.record("c", outcome=Outcome.INDETERMINATE, reason="who knows"),
        samples.record("d", outcome=Outcome.INFRA, reason="old"),
        samples.record("e", outcome=Outcome.FAILED),
        samples.record("f", outcome=Outcome.NOT_RUN, reason="cut off"),
    ]
    assert [(group.outcome, group.example, group.cells) for group in undecided(records)] == [
        (Outcome.INFRA, "old", 1),
        (Outcome.NOT_RUN, "cut off", 1),
        (Outcome.INDETERMINATE, "who knows", 1),
        (Outcome.UNSUPPORTED, "old", 2),
    ]


def test_every_undecided_cell_is_in_one_entry(samples: ModuleType) -> None:
    records = samples.realistic(faulty=True).records
    groups = undecided(records)
    assert sum(group.cells for group in groups) == sum(r.outcome is Outcome.UNSUPPORTED for r in records) > 0
    assert all(group.to_do for group in groups)
