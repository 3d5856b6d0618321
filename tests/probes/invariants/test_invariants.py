"""Every invariant catches its specimen, and lets its repaired twin pass."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from harness.model.record import Ended, Observation
from harness.probes.invariants import INVARIANTS, broken, broken_across, partners

_spec = importlib.util.spec_from_file_location("specimens", Path(__file__).with_name("specimens.py"))
assert _spec is not None
assert _spec.loader is not None
specimens = importlib.util.module_from_spec(_spec)
sys.modules["specimens"] = specimens
_spec.loader.exec_module(specimens)

DOCS = Path(__file__).parents[3] / "docs" / "invariants.md"


@pytest.mark.parametrize("one", specimens.SPECIMENS, ids=lambda one: f"{one.rule}-{one.words[:30]}")
def test_a_rule_catches_its_specimen_and_lets_the_repaired_twin_pass(one: specimens.Specimen) -> None:
    (finding,) = broken(one.cell, one.faulty)
    assert finding.rule == one.rule
    assert one.words in finding.message
    assert broken(one.cell, one.repaired) == ()


@pytest.mark.parametrize("one", specimens.PAIRS, ids=lambda one: one.rule)
def test_a_rule_over_the_run_catches_its_pair_and_lets_the_repaired_twin_pass(one: specimens.Pair) -> None:
    assert one.other in partners([one.cell, one.other])[one.cell.id]
    others = ((one.other, one.its),)
    (finding,) = broken_across(one.cell, one.faulty, others)
    assert finding.rule == one.rule
    assert broken_across(one.cell, one.repaired, others) == ()


@pytest.mark.parametrize("one", specimens.SPECIMENS, ids=lambda one: f"{one.rule}-{one.words[:30]}")
@pytest.mark.parametrize("ended", [Ended.INDETERMINATE, Ended.UNSUPPORTED, Ended.TIMED_OUT])
def test_what_cannot_be_told_breaks_no_rule_of_selection(one: specimens.Specimen, ended: Ended) -> None:
    if one.rule in ("I10", "I16", "I2"):  # facts about the process and its parameters hold whatever the answer is
        return
    assert broken(one.cell, Observation(ended=ended, detail="cannot tell")) == ()


def test_there_are_sixteen_each_with_a_reason_and_one_place_where_it_is_judged() -> None:
    assert [invariant.rule for invariant in INVARIANTS] == [f"I{number}" for number in range(1, 17)]
    for invariant in INVARIANTS:
        assert len(invariant.reason.split()) >= 8
        assert sum(map(bool, (invariant.check, invariant.across, invariant.noted_by))) == 1
        if invariant.noted_by:
            assert importlib.import_module(invariant.noted_by).__doc__


def test_every_judged_rule_has_a_specimen() -> None:
    covered = {one.rule for one in (*specimens.SPECIMENS, *specimens.PAIRS)}
    assert covered == {invariant.rule for invariant in INVARIANTS if not invariant.noted_by}


def test_the_docs_explain_every_rule() -> None:
    rows = re.findall(r"^\| (I\d+) \| `(\w+)` ", DOCS.read_text(), re.MULTILINE)
    assert rows == [(invariant.rule, invariant.name) for invariant in INVARIANTS]


def test_a_row_of_another_device_is_the_fault_of_the_gate_that_read_it() -> None:
    (one,) = [one for one in specimens.SPECIMENS if one.rule == "I6"]
    assert broken(one.cell, one.faulty)[0].symbol == "rocm_aiter_ops.is_per_token_w8a8_gemm_tuned"


def test_a_backend_that_the_user_names_is_no_disobedience() -> None:
    cell = specimens.cell(specimens.Surface.MOE, backend="aiter")
    assert broken(cell, specimens.answered("AITER/AiterExperts")) == ()


def test_cells_that_differ_in_more_than_the_switch_are_no_partners() -> None:
    on = specimens.cell(specimens.Surface.MOE, env=specimens.ON)
    other = specimens.cell(specimens.Surface.MOE, target=specimens.RX7900)
    assert partners([on, other]) == {}
