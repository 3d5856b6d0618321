from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters.categories import categorise
from harness.model.record import Category, Record


@pytest.mark.parametrize(
    ("reason", "category"),
    [
        ("shape (7168, 2048) is not in the tuned list of hipBLASLt", Category.TUNED_TABLE),
        ("requires setting VLLM_ROCM_USE_AITER=1", Category.ENVIRONMENT),
        ("FlashInfer is not installed", Category.PACKAGE),
        ("requires compute capability 89", Category.ARCHITECTURE),
        ("Only gfx1100 is supported", Category.ARCHITECTURE),
        ("requires ROCm.", Category.PLATFORM),
        ("weight output dimension is not divisible by 64", Category.SHAPE),
        ("requires symmetric zero points", Category.SCHEME),
        ("torch.ops lacks it", Category.OPERATOR),
        ("because", Category.OTHER),
        ("", Category.OTHER),
    ],
)
def test_each_category_is_told_by_vllm_s_words(reason: str, category: Category) -> None:
    assert categorise(reason) is category


@given(st.text())
def test_every_text_has_a_category(reason: str) -> None:
    assert categorise(reason) in Category


def test_only_a_candidate_that_was_passed_over_has_a_category(gfx942: dict[str, Record]) -> None:
    candidates = [one for record in gfx942.values() for one in record.candidates]
    assert candidates
    for one in candidates:
        assert (one.category is not None) == (one.accepted is False)


def test_hardly_any_of_a_release_s_reasons_is_unsorted(routes: dict[str, Record]) -> None:
    reasons = {one.reason for record in routes.values() for one in record.candidates if one.reason}
    unsorted = sorted(reason for reason in reasons if categorise(reason) is Category.OTHER)
    assert len(reasons) >= 20
    assert unsorted == []
