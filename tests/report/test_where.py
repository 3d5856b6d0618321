from __future__ import annotations

from types import ModuleType

import pytest

from harness.model.record import Outcome
from harness.report.where import Universe, label_of, targets_listed, where


def test_axes_that_are_filled_are_left_out(samples: ModuleType) -> None:
    records = samples.realistic(faulty=False).records
    universe = Universe.of(records)
    assert where(records, universe) == ""
    some = [r for r in records if r.environment == "aiter_on" and r.layer == "o" and r.model != "model1"]
    assert where(some, universe) == "environment aiter_on; model model0.tp8, model2.tp8; layer o"


def test_records_without_a_model_do_not_name_one(samples: ModuleType) -> None:
    bare = samples.record("x", model=None, tp=None, layer=None)
    assert where([bare], Universe.of([bare, samples.record("y")])) == ""


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        ({"gfx942"}, "gfx942"),
        ({"gfx942/MI300X"}, "gfx942/MI300X"),
        ({"gfx942", "gfx1100", "cpu"}, "gfx942, gfx1100, cpu"),
        ({"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "sm90"}, "all rocm, sm90"),
        ({"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "sm90", "cpu"}, "all targets"),
    ],
    ids=str,
)
def test_targets_are_listed_as_ranges(samples: ModuleType, targets: set[str], text: str) -> None:
    records = samples.realistic(faulty=False).records
    some = [r for r in records if r.target in targets or f"{r.target}/{r.device}" in targets]
    assert targets_listed(some, Universe.of(records)) == text


@pytest.mark.parametrize(
    ("outcome", "label"),
    [(Outcome.PASSED, "no kernel"), (Outcome.CRASHED, "crashed"), (Outcome.UNSUPPORTED, "not in this release")],
)
def test_a_cell_without_a_kernel_says_why(samples: ModuleType, outcome: Outcome, label: str) -> None:
    assert label_of(samples.record(chosen=None, outcome=outcome)) == label
    assert label_of(samples.record(outcome=outcome)) == samples.TRITON
