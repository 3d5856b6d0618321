from __future__ import annotations

from types import ModuleType

import pytest

from harness.model.cell import Surface
from harness.model.record import Outcome
from harness.model.target import Attachment, Platform
from harness.report.where import Population, Universe, attachments, label_of, targets_listed, where


def test_axes_that_are_filled_are_left_out(samples: ModuleType) -> None:
    records = samples.realistic(faulty=False).records
    assert where(records, records) == ""
    some = [r for r in records if r.environment == "aiter_on" and r.layer == "o" and r.model != "model1"]
    assert where(some, records) == "environment aiter_on; model model0.tp8, model2.tp8; layer o"


def test_an_axis_that_another_one_implies_is_left_out(samples: ModuleType) -> None:
    some = [samples.record("a", kernel="k1", model="m1", layer="qkv"), samples.record("b", kernel="k1", model="m1")]
    others = [samples.record("c", kernel="k2", model="m2", layer="q_a")]
    assert where(some, some + others) == "kernel k1"
    assert where(some[:1], some + others) == "layer qkv"


def test_records_without_a_model_do_not_name_one(samples: ModuleType) -> None:
    bare = samples.record("x", model=None, tp=None, layer=None)
    assert where([bare], [bare, samples.record("y")]) == ""


def test_only_cells_of_the_same_kind_and_targets_place_a_record(samples: ModuleType) -> None:
    here = [samples.record("a"), samples.record("b", environment="aiter_on")]
    elsewhere = samples.record("c", target="sm90", device="H100", platform=Platform.CUDA, environment="default")
    other = samples.record("d", family="int8", environment="batch_invariant")
    population = Population.of([*here, elsewhere, other])
    assert population.placed(here) == ("gfx942", "")
    assert population.placed(here[:1]) == ("gfx942", "environment aiter_off")


def test_targets_are_told_by_attachment(samples: ModuleType) -> None:
    records = [
        samples.record("a", target="cpu", device="cpu", platform=Platform.CPU),
        samples.record("b", attachment=Attachment.ATTACHED),
        samples.record("c"),
    ]
    assert attachments(records) == {Attachment.ATTACHED: "gfx942/MI300X", Attachment.SIMULATED: "gfx942/MI300X, cpu"}
    assert attachments([]) == {Attachment.ATTACHED: "none", Attachment.SIMULATED: "none"}


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        (["gfx942"], "gfx942"),
        (["gfx942/MI300X"], "gfx942/MI300X"),
        (["gfx942", "gfx1100", "cpu"], "gfx942, gfx1100, cpu"),
        (["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "sm90"], "all rocm, sm90"),
        (["gfx90a", "gfx942", "gfx950", "gfx1100"], "all rocm but gfx1201"),
        (["gfx90a", "gfx942/MI300X", "gfx950", "gfx1100"], "all rocm but gfx942/MI308X and gfx1201"),
        (["gfx90a", "gfx942", "gfx950"], "gfx90a, gfx942, gfx950"),
        (["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "sm90", "cpu"], "all targets"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_targets_are_listed_as_ranges(samples: ModuleType, targets: list[str], text: str) -> None:
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


def test_a_cell_that_chooses_no_kernel_has_no_answer(samples: ModuleType) -> None:
    assert label_of(samples.record(chosen=None, surface=Surface.GUARD)) == "no answer"


def test_one_platform_is_not_all_targets(samples: ModuleType) -> None:
    records = [samples.record("a"), samples.record("b", target="gfx950", device="MI350X")]
    assert targets_listed(records, Universe.of(records)) == "all rocm"
