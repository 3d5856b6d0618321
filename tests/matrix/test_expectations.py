"""expectations: what is expected of a cell, what is known to fail, and rules that cannot be."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from harness.model.cell import Layer
from harness.model.errors import MatrixError

EXPECT = "expectations:\n"
KNOWN = "known_failures:\n"
EXCEPT = "exceptions:\n"


def _cell(matrix, cell_id):
    return next(cell for cell in matrix.cells if cell.id == cell_id)


BLOCK = "route/linear/gfx942.MI300X/on/fp8_block/big.tp8/o"


def test_no_rule_is_no_expectation(load):
    matrix = load()
    assert all(matrix.expected(cell, aiter=True) is None for cell in matrix.cells)
    assert all(matrix.known_failure(cell) is None for cell in matrix.cells)
    assert all(matrix.exceptions(cell) == {} for cell in matrix.cells)


def test_a_rule_speaks_of_the_cells_it_selects_and_says_where_it_stands(load, base):
    selection = "surface: linear, targets: [gfx942], kernels: [fp8_block]"
    matrix = load(f"{base}{EXPECT}  - {{{selection}, chosen: [A, none], never: B, because: why, source: here}}\n")
    expected = matrix.expected(_cell(matrix, BLOCK), aiter=False)
    assert expected is not None
    assert expected.allowed == {"A", "none"}
    assert expected.never == {"B"}
    assert expected.because == "why (here)"
    assert expected.where.endswith("matrix.yaml:20:5")
    others = [cell for cell in matrix.cells if cell.kernel.name != "fp8_block" or cell.target.gfx != "gfx942"]
    assert others
    assert all(matrix.expected(cell, aiter=False) is None for cell in others)


def test_a_rule_without_chosen_leaves_every_answer_open(load, base):
    matrix = load(base + EXPECT + "  - {surface: linear, never: B, because: w, source: s}\n")
    expected = matrix.expected(_cell(matrix, BLOCK), aiter=True)
    assert expected is not None
    assert expected.allowed is None


def test_rules_that_agree_are_taken_together(load, base):
    rules = EXPECT + (
        "  - {surface: linear, chosen: [A, B], because: one, source: s}\n"
        "  - {surface: linear, kernels: [fp8], chosen: [B, C], never: D, because: two, source: s}\n"
    )
    matrix = load(base + rules)
    expected = matrix.expected(_cell(matrix, BLOCK), aiter=True)
    assert expected is not None
    assert (expected.allowed, expected.never) == ({"B"}, {"D"})
    assert expected.because == "one (s); two (s)"
    assert ":20:5, " in expected.where
    assert expected.where.endswith(":21:5")


def test_a_rule_may_hold_only_with_or_without_aiter(load, base):
    rules = EXPECT + (
        "  - {surface: linear, chosen: A, aiter: present, because: w, source: s}\n"
        "  - {surface: linear, chosen: B, aiter: absent, because: w, source: s}\n"
    )
    matrix = load(base + rules)
    cell = _cell(matrix, BLOCK)
    assert matrix.expected(cell, aiter=True).allowed == {"A"}
    assert matrix.expected(cell, aiter=False).allowed == {"B"}


def test_plain_booleans_and_numbers_are_answers_as_python_prints_them(load, base):
    text = base.replace("surface: allowlist", "surface: platform").replace(
        "  allowlist:\n", "  platform: {facts: [x]}\n  allowlist:\n"
    )
    matrix = load(text + EXPECT + "  - {surface: platform, chosen: [True, false, 3], because: w, source: s}\n")
    assert matrix.expected(matrix.cells[-1], aiter=True).allowed == {"True", "False", "3"}


def test_a_cell_at_another_tensor_parallel_size_meets_the_same_rules(load, base):
    matrix = load(base + EXPECT + "  - {surface: linear, layers: [o], chosen: A, because: w, source: s}\n")
    cell = _cell(matrix, BLOCK)
    other = dataclasses.replace(cell, tp=4, layer=Layer("o", 512, 256))
    assert other.id not in {c.id for c in matrix.cells}
    assert matrix.expected(other, aiter=True) == matrix.expected(cell, aiter=True)
    elsewhere = dataclasses.replace(cell, environment="a profile of no matrix")
    assert matrix.expected(elsewhere, aiter=True).allowed == {"A"}


def test_a_known_failure_speaks_of_its_cells_until_its_last_day(load, base):
    details = "issue: 'https://e.org/1', owner: '@me', expires: 2026-01-01, reason: r"
    rule = f"{KNOWN}  - {{targets: [sm90], kernels: [row_wise], {details}}}\n"
    matrix = load(base + rule, today=datetime.date(2026, 1, 1))
    known = matrix.known_failure(_cell(matrix, "route/allowlist/sm90.H100/plain/row_wise"))
    assert known is not None
    assert (known.issue, known.owner, known.reason) == ("https://e.org/1", "@me", "r")
    assert known.where.endswith("matrix.yaml:20:5")
    assert matrix.known_failure(_cell(matrix, "route/allowlist/cpu/plain/row_wise")) is None
    with pytest.raises(MatrixError, match=r":20:\d+: the known failure has expired \(got '2026-01-01'.*Ask @me"):
        load(base + rule, today=datetime.date(2026, 1, 2))


def test_an_exception_speaks_of_its_rule_and_its_cells_until_its_last_day(load, base):
    details = "issue: 'https://e.org/1', owner: '@me', expires: 2026-01-01, reason: r"
    one = f"  - {{rule: I10, targets: [sm90], kernels: [row_wise], {details}}}\n"
    rules = f"{EXCEPT}{one}  - {{rule: I3, targets: [sm90], {details}}}\n"
    matrix = load(base + rules, today=datetime.date(2026, 1, 1))
    found = matrix.exceptions(_cell(matrix, "route/allowlist/sm90.H100/plain/row_wise"))
    assert {rule: excepted.reason for rule, excepted in found.items()} == {"I10": "r", "I3": "r"}
    assert (found["I10"].issue, found["I10"].owner) == ("https://e.org/1", "@me")
    assert found["I10"].where.endswith("matrix.yaml:20:5")
    assert matrix.exceptions(_cell(matrix, "route/allowlist/cpu/plain/row_wise")) == {}
    with pytest.raises(MatrixError, match=r":20:\d+: the exception has expired \(got '2026-01-01'.*Ask @me"):
        load(base + rules, today=datetime.date(2026, 1, 2))


ALLOW = "{surface: allowlist, %s, because: w, source: s}"
FAULTS = [
    (EXPECT, ALLOW % "chosen: acepted", "20:34", "(got 'acepted'). Did you mean 'accepted'?"),
    (EXPECT, ALLOW % "never: [refused, none]", "20:43", "(got 'none')"),
    (EXPECT, ALLOW % "chosen: accepted, aiter: maybe", "20:51", "(got 'maybe'; expected 'present' or 'absent')"),
    (EXPECT, ALLOW % "kernels: [all]", "20:5", "the expectation expects nothing"),
    (EXPECT, "{chosen: accepted, because: w, source: s}", "20:5", "the key 'surface' is missing"),
    (EXPECT, "{surface: allowlist, chosen: accepted, source: s}", "20:5", "the key 'because' is missing"),
    (EXPECT, ALLOW % "chosen: accepted, targets: [gfx943]", "20:54", "Did you mean 'gfx942'?"),
    (EXPECT, ALLOW % "chosen: accepted, kernels: [fp8]", "20:54", "unknown name in 'kernels'"),
    (EXPECT, ALLOW % "chosen: accepted, environments: [on]", "20:5", "the expectation speaks of no cell"),
    (EXPECT, ALLOW % "chosen: accepted, never: accepted", "20:5", "contradict each other on cell route/allowlist/"),
    (KNOWN, "{targets: cpu, environments: on, issue: 'https://e.org', owner: o, expires: 2027-01-01, reason: r}",
     "20:5", "the known failure speaks of no cell"),
    (KNOWN, "{issue: none, owner: o, expires: 2027-01-01, reason: r}", "20:13", "text of the form ^https?://"),
    (KNOWN, "{issue: 'https://e.org', owner: o, expires: 2027-02-30, reason: r}", "20:49", "a date as 2026-01-31"),
    (KNOWN, "{issue: 'https://e.org', owner: o, expires: 20270101, reason: r}", "20:49", "a valid date"),
    (KNOWN, "{issue: 'https://e.org', owner: '', expires: 2027-01-01, reason: r}", "20:37", "some text"),
    (EXCEPT, "{rule: I1, targets: cpu, environments: on, issue: 'http://e', owner: o, expires: 2027-01-01, reason: r}",
     "20:5", "the exception speaks of no cell"),
    (EXCEPT, "{rule: I17, issue: 'http://e', owner: o, expires: 2027-01-01, reason: r}", "20:12", "text of the form"),
    (EXCEPT, "{issue: 'https://e.org', owner: o, expires: 2027-01-01, reason: r}", "20:5", "the key 'rule' is missing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("section", "rule", "place", "what"), FAULTS, ids=[f"{place} {what[:30]}" for *_, place, what in FAULTS]
)
def test_a_rule_that_cannot_be_is_named_with_its_place(load, base, section, rule, place, what):
    with pytest.raises(MatrixError) as caught:
        load(f"{base}{section}  - {rule}\n")
    assert f"matrix.yaml:{place}: " in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second"), [("chosen: accepted", "chosen: refused"), ("chosen: accepted", "never: accepted")]
)
def test_rules_that_contradict_each_other_on_one_cell_are_refused_and_both_named(load, base, first, second):
    rules = f"{EXPECT}  - {ALLOW % (first + ', targets: [cpu]')}\n  - {ALLOW % second}\n"
    with pytest.raises(MatrixError) as caught:
        load(base + rules)
    assert (
        "matrix.yaml:21:5: the expectations contradict each other on cell route/allowlist/cpu/plain/per_tensor"
        in str(caught.value)
    )
    assert "matrix.yaml:20:5, " in str(caught.value)


def test_rules_for_opposite_states_of_aiter_do_not_contradict(load, base):
    rules = (
        f"{EXPECT}  - {ALLOW % 'chosen: accepted, aiter: present'}\n  - {ALLOW % 'chosen: refused, aiter: absent'}\n"
    )
    assert load(base + rules).cells
