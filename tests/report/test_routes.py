from __future__ import annotations

from types import ModuleType

from harness.model.record import Candidate, Category
from harness.report.routes import Choice, Refusal, details, overview, refusals_of


def test_equal_targets_share_a_block_and_cells_add_up(samples: ModuleType) -> None:
    records = samples.realistic(faulty=True).records
    for blocks in (overview(records), details(records)):
        assert sum(block.cells for block in blocks) == len(records)
        assert sum(choice.cells for block in blocks for choice in block.choices) == len(records)
    fp8 = {block.targets: block.choices for block in overview(records) if block.family == "fp8"}
    assert fp8["gfx90a"] == (Choice("ChannelWiseTorch", 36, ""),)
    assert fp8["gfx942, gfx950"] == (
        Choice("TorchScaledMM", 72, "environment aiter_off, batch_invariant"),
        Choice("AiterBlock", 36, "environment aiter_on"),
    )


def test_kernels_that_do_not_differ_share_a_block(samples: ModuleType) -> None:
    blocks = details(samples.realistic(faulty=True).records)
    assert {block.kernels for block in blocks if block.family == "fp8"} == {("fp8_block", "fp8_static")}
    assert len(blocks) < 15


def test_a_kernel_that_differs_in_one_cell_has_a_block_of_its_own(samples: ModuleType) -> None:
    records = [
        samples.record("a"),
        samples.record("b", kernel="other"),
        samples.record("c", kernel="third", chosen="X"),
    ]
    assert [block.kernels for block in details(records)] == [("fp8_block", "other"), ("third",)]


def test_refusals_are_told_apart_by_words_and_counted(samples: ModuleType) -> None:
    def refused(id_: str, words: str, **place: str) -> object:
        return samples.record(
            id_, candidates=(Candidate(name="K", accepted=False, reason=words, category=Category.SHAPE),), **place
        )

    found = refusals_of(
        [refused("a", "n"), refused("b", "n"), refused("c", "m", environment="aiter_on", device="MI308X")]
    )
    assert found == (
        Refusal("K", Category.SHAPE, "n", 2, "environment aiter_off", "gfx942/MI300X"),
        Refusal("K", Category.SHAPE, "m", 1, "environment aiter_on", "gfx942/MI308X"),
    )


def test_candidates_not_reached_and_accepted_are_no_refusals(samples: ModuleType) -> None:
    assert [refusal.candidate for refusal in refusals_of([samples.record()])] == ["AiterBlock"]
