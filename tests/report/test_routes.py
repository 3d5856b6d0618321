from __future__ import annotations

from types import ModuleType

import pytest

from harness.model.cell import Surface
from harness.model.record import Candidate, Category, Outcome
from harness.model.target import Platform
from harness.report.routes import FACTS, Choice, Refusal, families, overview, own_words, refusals_of, schemes_of


def test_equal_targets_share_a_block_and_cells_add_up(samples: ModuleType) -> None:
    records = samples.realistic(faulty=True).records
    blocks = overview(records, limit=100)
    assert sum(block.cells for block in blocks) == len(records)
    assert sum(choice.cells for block in blocks for choice in block.choices) == len(records)
    fp8 = {block.targets: block.choices for block in blocks if block.family == "fp8"}
    assert fp8["gfx90a"] == (Choice("ChannelWiseTorch", 36, ""),)
    assert fp8["gfx942, gfx950"] == (
        Choice("TorchScaledMM", 72, "environment aiter_off, batch_invariant"),
        Choice("AiterBlock", 36, "environment aiter_on"),
    )


def test_a_target_that_is_asked_less_joins_the_one_that_answers_alike(samples: ModuleType) -> None:
    records = [
        samples.record("a"),
        samples.record("b", environment="aiter_on", chosen="X"),
        samples.record("c", device="MI308X"),
        samples.record("d", target="gfx950", device="MI350X", chosen="X"),
    ]
    blocks = [(block.targets, block.cells) for block in overview(records, limit=9)]
    assert blocks == [("gfx942", 3), ("gfx950", 1)]


def test_too_many_blocks_fold_the_platforms_that_are_not_rocm(samples: ModuleType) -> None:
    places = [("gfx942", Platform.ROCM), ("gfx950", Platform.ROCM), ("sm80", Platform.CUDA), ("sm90", Platform.CUDA)]
    records = [
        samples.record(target, platform=platform, target=target, device=target, chosen=f"Kernel of {target}")
        for target, platform in [*places, ("cpu", Platform.CPU)]
    ]
    assert len(overview(records, limit=5)) == 5
    folded = overview(records, limit=4)
    assert [block.targets for block in folded] == ["gfx942", "gfx950", "all cuda, cpu"]
    assert sum(choice.cells for block in folded for choice in block.choices) == len(records)


def test_blocks_are_not_folded_where_that_would_make_more_of_them(samples: ModuleType) -> None:
    records = samples.realistic(faulty=False).records
    assert overview(records, limit=1) == overview(records, limit=100)


def test_a_run_without_rocm_is_never_folded(samples: ModuleType) -> None:
    records = [
        samples.record(target, platform=Platform.CUDA, target=target, device="X", chosen=target)
        for target in ("sm80", "sm90")
    ]
    assert [block.targets for block in overview(records, limit=1)] == ["sm80", "sm90"]


def test_surfaces_that_answer_about_the_target_choose_nothing(samples: ModuleType) -> None:
    facts = [samples.record(surface.value, surface=surface) for surface in Surface]
    choose = {"linear", "moe", "attention", "unquantized_gemm", "allowlist", "guard", "upstream", "whole_model"}
    assert {record.surface.value for record in facts} - set(FACTS) == choose
    assert sum(block.cells for block in overview(facts, limit=9)) == len(choose)
    assert sum(scheme.cells for family in families(facts) for scheme in family.schemes) == len(choose)


def test_kernels_that_do_not_differ_share_a_scheme(samples: ModuleType) -> None:
    records = [r for r in samples.realistic(faulty=True).records if r.family == "fp8"]
    (scheme,) = schemes_of(records)
    assert scheme.kernels == ("fp8_block", "fp8_static")
    assert scheme.cells == sum(block.cells for block in scheme.blocks) == len(records)


def test_a_kernel_that_differs_in_one_cell_has_a_scheme_of_its_own(samples: ModuleType) -> None:
    records = [
        samples.record("a"),
        samples.record("b", kernel="other"),
        samples.record("c", kernel="third", chosen="X"),
    ]
    assert [scheme.kernels for scheme in schemes_of(records)] == [("fp8_block", "other"), ("third",)]


def refused(samples: ModuleType, id_: str, words: str, *names: str, **place: object) -> object:
    candidates = tuple(Candidate(name=n, accepted=False, reason=words, category=Category.SHAPE) for n in names or "K")
    return samples.record(id_, candidates=candidates, **place)


def test_refusals_are_told_apart_by_words_and_counted(samples: ModuleType) -> None:
    records = [
        refused(samples, "a", "narrow"),
        refused(samples, "b", "narrow"),
        refused(samples, "c", "wide", environment="aiter_on", device="MI308X"),
    ]
    assert refusals_of(records) == (
        Refusal(("K",), Category.SHAPE, "narrow", 1, 2, "gfx942/MI300X", ""),
        Refusal(("K",), Category.SHAPE, "wide", 1, 1, "gfx942/MI308X", ""),
    )


def test_refusals_that_differ_in_numbers_are_one(samples: ModuleType) -> None:
    (refusal,) = refusals_of([refused(samples, "a", "N=1 is odd"), refused(samples, "b", "N=3 is odd")])
    assert (refusal.words, refusal.texts, refusal.cells) == ("N=1 is odd", 2, 2)


def test_candidates_are_one_only_where_the_same_cells_refuse_them(samples: ModuleType) -> None:
    both = [refused(samples, "a", "no", "A", "B"), refused(samples, "b", "no", "A", "B")]
    assert [refusal.candidates for refusal in refusals_of(both)] == [("A", "B")]
    assert [r.candidates for r in refusals_of([*both, refused(samples, "c", "no", "A")])] == [("A",), ("B",)]


def test_rocm_is_told_before_the_other_platforms(samples: ModuleType) -> None:
    records = [
        refused(samples, "a", "on cpu", platform=Platform.CPU, target="cpu", device="cpu"),
        refused(samples, "b", "on rocm"),
    ]
    assert [refusal.words for refusal in refusals_of(records)] == ["on rocm", "on cpu"]


def test_a_refusal_without_any_candidate_tells_its_reason(samples: ModuleType) -> None:
    bare = {"chosen": None, "candidates": (), "reason": "it lists no kernel"}
    (refusal,) = refusals_of([samples.record(**bare)])
    assert (refusal.candidates, refusal.words) == ((), "it lists no kernel")
    for outcome in (Outcome.UNSUPPORTED, Outcome.INDETERMINATE, Outcome.FAILED):
        assert refusals_of([samples.record(**bare, outcome=outcome)]) == ()


def test_candidates_not_reached_and_accepted_are_no_refusals(samples: ModuleType) -> None:
    assert [refusal.candidates for refusal in refusals_of([samples.record()])] == [("AiterBlock",)]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("KKernel requires X..", "requires X."),
        ("KKernel: requires X", "requires X"),
        ("requires KKernel.", "requires KKernel."),
        ("and so on...", "and so on..."),
        ("", ""),
    ],
)
def test_vllms_words_lose_only_what_its_selectors_put_around_them(reason: str, words: str) -> None:
    assert own_words("KKernel", reason) == words
