from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.record import Outcome
from harness.report.causes import Wording, cause, fewer_names, figures, parted, to_do, without_advice, wordings

TABLE = "cannot tell whether AITER's {} has a row for gfx={}, cu_num={}, N={}, K={} (pass --aiter tables:DIR). {}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tuned for gfx942, N=1536, K=7168", "tuned for gfx1200, N=1, K=2"),
        ("runs on gfx942/MI300X", "runs on gfx950"),
        ("capability of80 is too low", "capability of89 is too low"),
        ("needs sm_100 on sm90", "needs sm_100 on sm80"),
    ],
)
def test_numbers_and_targets_do_not_make_another_cause(one: str, other: str) -> None:
    assert figures(one) == figures(other)
    assert cause(one) == cause(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no gate rocm_aiter_ops.is_a_tuned", "no gate rocm_aiter_ops.is_b_enabled"),
        ("ScaledMMKernel does not support it", "ConchLinearKernel does not support it"),
        ("never RedKernel or OldKernel: why", "never RedKernel or OldKernel or HotKernel: why"),
        ("private, on cuda (a/b.py:1)", "private, on xpu (a/b.py:2)"),
    ],
)
def test_code_names_do_not_make_another_cause_but_are_told_apart_in_vllms_words(one: str, other: str) -> None:
    assert cause(one) == cause(other)
    assert figures(one) != figures(other)


@pytest.mark.parametrize(("one", "other"), [("AITER is off", "AITER is absent"), ("too wide", "too narrow: 3")])
def test_other_words_are_another_cause(one: str, other: str) -> None:
    assert cause(one) != cause(other)


def test_one_cause_is_told_by_its_commonest_text_with_counts() -> None:
    texts = ["N=2 is odd", "other", "N=1 is odd", "N=2 is odd"]
    assert wordings(texts) == (Wording("N=2 is odd", 3, 2), Wording("other", 1, 1))


@given(texts=st.lists(st.sampled_from(["a1", "a2", "b", "or c_d", "", "gfx942 x", "gfx950 x"])))
def test_no_text_is_lost_and_the_order_does_not_matter(texts: list[str]) -> None:
    found = wordings(texts)
    assert sum(wording.cells for wording in found) == len(texts)
    assert sum(wording.texts for wording in found) == len(set(texts))
    assert found == wordings(texts[::-1])


@given(text=st.text(max_size=80))
def test_any_text_has_a_cause(text: str) -> None:
    assert cause(text) == cause(text)
    assert " ".join(part for part in parted(text) if part).split() == text.split()


def test_a_reason_is_parted_behind_its_first_sentence() -> None:
    reason = TABLE.format("a.csv", "gfx942", 304, 1, 2, "If so: A; if not: B. Then C.")
    assert parted(reason)[1] == "If so: A; if not: B. Then C."
    assert parted("no gate a.b_c") == ("no gate a.b_c", "")


def test_advice_is_taken_out_of_the_reason_once() -> None:
    reason = "cannot tell X (pass --aiter a); nor Y (pass --aiter a); nor Z (pass --b c)."
    assert to_do(reason, Outcome.INDETERMINATE) == "pass --aiter a; pass --b c"
    assert without_advice(reason) == "cannot tell X; nor Y; nor Z."
    assert without_advice("the (passive) one") == "the (passive) one"


@pytest.mark.parametrize(
    "outcome", [Outcome.UNSUPPORTED, Outcome.INDETERMINATE, Outcome.INFRA, Outcome.NOT_RUN, Outcome.FAILED]
)
def test_a_reason_without_advice_still_says_what_to_do(outcome: Outcome) -> None:
    assert to_do("because", outcome)


def test_a_long_list_of_names_is_counted() -> None:
    assert fewer_names("never A or B or C or D: why") == "never A or 3 more: why"
    assert fewer_names("A or B or C") == "A or B or C"
