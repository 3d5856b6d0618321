from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from harness.compare.replay import Scope, alarms_of, replayed
from harness.model.cell import Surface
from harness.model.record import Candidate, Evidence, Finding, Outcome, Record
from harness.model.replay import Caught, Names, ReplayEntry
from harness.model.target import Platform

ENTRY = ReplayEntry(
    name="a",
    id="#1",
    file="vllm/model_executor/kernels/linear/x.py",
    symbol="Kernel.is_supported",
    targets="gfx942",
    fault="wrong",
    bad_version="0.28.0",
    fixed_version="0.30.0",
)
EXPECTED = Finding(rule="expectation", symbol="Kernel.is_supported", message="m")
BROKEN = Finding(rule="I5", symbol="Other.gate", message="m")


@pytest.fixture
def record(samples: ModuleType) -> Any:
    def make(id_: str = "cell", *findings: Finding, **fields: Any) -> Record:
        outcome = Outcome.FAILED if findings else Outcome.PASSED
        made: Record = samples.record(id_, **({"findings": findings, "outcome": outcome} | fields))
        return made

    return make


def by_id(*records: Record) -> dict[str, Record]:
    return {record.id: record for record in records}


# ---- scope


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        ("gfx942,gfx950", {"gfx942", "gfx950"}),
        ("all ROCm", {"rocm"}),
        ("gfx942 (all ROCm)", {"gfx942", "rocm"}),
        ("cpu/cuda/xpu", {"cpu", "cuda", "xpu"}),
        ("sm90 and none", {"sm90", "none"}),
        ("everywhere", set()),
        ("gfx12x", set()),
    ],
)
def test_targets_are_the_names_in_the_free_text(words: str, targets: set[str]) -> None:
    scope = Scope.of(ENTRY.model_copy(update={"targets": words}))
    assert scope.targets == targets
    assert scope.takes(Surface.LINEAR, "gfx942", Platform.ROCM) is (not targets or bool({"gfx942", "rocm"} & targets))


def test_surfaces_are_those_that_the_file_serves() -> None:
    assert Scope.of(ENTRY).takes(Surface.ALLOWLIST, "gfx942", Platform.ROCM)
    assert not Scope.of(ENTRY).takes(Surface.MOE, "gfx942", Platform.ROCM)


# ---- D1


@pytest.mark.parametrize(("finding", "by"), [(EXPECTED, Caught.EXPECTATION), (BROKEN, Caught.INVARIANT)])
def test_a_finding_that_the_fixed_release_no_longer_has_is_a_catch(record: Any, finding: Finding, by: Caught) -> None:
    seen = replayed(ENTRY, by_id(record("cell", finding)), by_id(record()))
    assert (seen.d1, seen.d1_by, seen.false_alarm, seen.cells) == (True, by, False, 1)
    assert seen.evidence.startswith(f"cell: {finding.rule} at {finding.symbol}: m")


def test_a_finding_that_stays_is_none(record: Any) -> None:
    other_words = EXPECTED.model_copy(update={"symbol": "Kernel.moved"})
    seen = replayed(ENTRY, by_id(record("cell", EXPECTED)), by_id(record("cell", other_words)))
    assert (seen.d1, seen.d1_by, seen.d2) == (False, None, False)


@pytest.mark.parametrize(
    ("outcome", "caught"),
    [
        (Outcome.PASSED, True),
        (Outcome.UNEXPECTED_PASS, True),
        (Outcome.UNSUPPORTED, True),
        (Outcome.INDETERMINATE, False),
        (Outcome.CRASHED, False),
        (Outcome.TIMED_OUT, False),
        (Outcome.NOT_RUN, False),
    ],
)
def test_a_fixed_release_that_was_not_decided_proves_nothing(record: Any, outcome: Outcome, caught: bool) -> None:
    seen = replayed(ENTRY, by_id(record("cell", EXPECTED)), by_id(record("cell", outcome=outcome)))
    assert seen.d1 is caught


def test_a_finding_that_the_matrix_excepts_is_none(record: Any) -> None:
    excepted = record("cell", EXPECTED, outcome=Outcome.EXPECTED_FAILURE)
    assert not replayed(ENTRY, by_id(excepted), by_id(record())).d1


@pytest.mark.parametrize(
    "fields",
    [{"target": "gfx1100"}, {"surface": Surface.MOE}],
)
def test_a_cell_outside_the_scope_does_not_count(record: Any, fields: dict[str, Any]) -> None:
    seen = replayed(ENTRY, by_id(record("cell", EXPECTED, **fields)), by_id(record("cell", chosen="X", **fields)))
    assert (seen.d1, seen.d2, seen.cells) == (False, False, 0)
    assert "no cell of the matrix asks" in seen.evidence


def test_a_cell_of_one_release_alone_does_not_count(record: Any) -> None:
    seen = replayed(ENTRY, by_id(record("cell", EXPECTED)), by_id(record("new")))
    assert (seen.d1, seen.d2) == (False, False)


def test_a_file_that_serves_no_surface_is_said(record: Any) -> None:
    entry = ENTRY.model_copy(update={"file": "setup.py"})
    assert replayed(entry, by_id(record("cell", EXPECTED)), by_id(record())).evidence == "no surface looks at the file"


def test_the_closest_evidence_is_shown_and_counts(record: Any) -> None:
    bad = [record("a", BROKEN), record("b", EXPECTED), record("c", BROKEN.model_copy(update={"symbol": "Kernel.x"}))]
    fixed = [record(name) for name in "abc"]
    seen = replayed(ENTRY, by_id(*bad), by_id(*fixed))
    assert (seen.d1_by, seen.d1_names) == (Caught.EXPECTATION, Names.SYMBOL)
    seen = replayed(ENTRY, by_id(*bad[::2]), by_id(*fixed))
    assert (seen.d1_names, seen.evidence.partition(":")[0]) == (Names.CLASS, "c")
    seen = replayed(ENTRY, by_id(bad[0]), by_id(*fixed))
    assert seen.d1_names is Names.SURFACE


def test_of_equally_close_evidence_the_one_with_the_file_s_name_in_it_comes_first(record: Any) -> None:
    entry = ENTRY.model_copy(update={"file": "vllm/model_executor/layers/fused_moe/oracle/mxfp8.py", "symbol": "f"})
    bad = [
        record(name, BROKEN, surface=Surface.MOE, kernel=kernel) for name, kernel in (("a", "int8"), ("b", "mxfp8_x"))
    ]
    fixed = [record(name, surface=Surface.MOE) for name in "ab"]
    assert replayed(entry, by_id(*bad), by_id(*fixed)).evidence.startswith("b: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"kernel": "is_supported"},
        {"candidates": (Candidate(name="is_supported", accepted=True),)},
        {"evidence": (Evidence(question="ops.is_supported(1)", answer="True"),)},
    ],
)
def test_a_symbol_is_named_by_any_part_of_a_record(record: Any, fields: dict[str, Any]) -> None:
    seen = replayed(ENTRY, by_id(record("cell", BROKEN, **fields)), by_id(record()))
    assert seen.d1_names is Names.SYMBOL


def test_a_fixed_release_with_the_same_finding_elsewhere_is_a_false_alarm(record: Any) -> None:
    bad = by_id(record("a", EXPECTED), record("b", EXPECTED))
    assert replayed(ENTRY, bad, by_id(record("a"), record("b", EXPECTED))).false_alarm
    excepted = record("b", EXPECTED, outcome=Outcome.EXPECTED_FAILURE)
    assert not replayed(ENTRY, bad, by_id(record("a"), excepted)).false_alarm
    assert not replayed(ENTRY, bad, by_id(record("a"), record("b", BROKEN))).false_alarm
    assert not replayed(ENTRY, bad, by_id(record("a"), record("b", EXPECTED, kernel="another_question"))).false_alarm


# ---- D2


def test_another_choice_is_a_difference_even_without_a_finding(record: Any) -> None:
    seen = replayed(ENTRY, by_id(record(chosen="A")), by_id(record(chosen="B")))
    assert (seen.d1, seen.d2, seen.d2_names) == (False, True, Names.SURFACE)
    assert seen.evidence == "cell: rerouted: chosen: A -> B"


@pytest.mark.parametrize(
    "after",
    [{"chosen": "A"}, {"chosen": None, "outcome": Outcome.INDETERMINATE}, {"chosen": None, "shape": (1, 1)}],
)
def test_equal_and_undecided_and_reshaped_cells_are_no_difference(record: Any, after: dict[str, Any]) -> None:
    assert not replayed(ENTRY, by_id(record(chosen="A")), by_id(record(**after))).d2


def test_a_failure_on_both_sides_differs_when_the_route_does(record: Any) -> None:
    bad = by_id(record("cell", EXPECTED, chosen="A"))
    assert not replayed(ENTRY, bad, by_id(record("cell", EXPECTED, chosen="A"))).d2
    assert replayed(ENTRY, bad, by_id(record("cell", EXPECTED, chosen="B"))).d2


# ---- findings of a release


@pytest.mark.parametrize(
    ("release", "explained"), [("0.27.0", 0), ("0.28.0", 1), ("0.29.0", 1), ("0.30.0", 0), ("0.29.1", 1)]
)
def test_an_entry_explains_the_findings_of_the_releases_that_have_its_fault(
    record: Any, release: str, explained: int
) -> None:
    seen = alarms_of(release, [record("a", EXPECTED), record("b", EXPECTED)], [ENTRY])
    assert (seen.findings, seen.explained, len(seen.alarms)) == (1, explained, 1 - explained)


def test_a_finding_that_no_entry_explains_is_told_once_with_its_targets(record: Any) -> None:
    cells = [record("a", BROKEN), record("b", BROKEN, target="cpu", device="cpu"), record("c")]
    seen = alarms_of("0.29.0", cells, [ENTRY])
    (alarm,) = seen.alarms
    assert (alarm.rule, alarm.symbol, alarm.surface, alarm.cells) == ("I5", "Other.gate", Surface.LINEAR, 2)
    assert alarm.targets == ("cpu", "gfx942/MI300X")
    assert alarm.reproduce == cells[0].reproduce
    assert seen.cells == 3
    assert seen.outcomes == {Surface.LINEAR: {Outcome.FAILED: 2, Outcome.PASSED: 1}}


def test_an_entry_explains_nothing_on_other_surfaces_and_what_the_matrix_excepts_needs_no_entry(record: Any) -> None:
    elsewhere = record("a", EXPECTED, surface=Surface.MOE)
    excepted = record("b", EXPECTED, outcome=Outcome.EXPECTED_FAILURE)
    seen = alarms_of("0.29.0", [elsewhere, excepted], [ENTRY])
    assert (seen.findings, seen.explained) == (1, 0)
