from __future__ import annotations

from types import ModuleType
from typing import Any

from harness.model.cell import Surface
from harness.model.record import Outcome
from harness.report.grids import Answers, answers, grids


def asked(samples: ModuleType, target: str, kernel: str, chosen: str | None, **place: Any) -> Any:
    values = {"surface": Surface.PLATFORM, "family": "facts", "target": target, "device": target, **place}
    return samples.record(f"{target}/{kernel}/{place}", kernel=kernel, chosen=chosen, **values)


def test_equal_questions_and_equal_targets_are_one(samples: ModuleType) -> None:
    records = [
        asked(samples, target, kernel, answer)
        for target, answer in (("gfx90a", "False"), ("gfx950", "True"), ("gfx1250", "True"))
        for kernel in ("on_mx", "has_mx")
    ]
    (grid,) = grids([*records, asked(samples, "gfx90a", "name", "rocm")])
    assert (grid.title, grid.family) == ("platform facts", "facts")
    assert grid.columns == ("gfx90a", "gfx950, gfx1250")
    assert grid.rows == ((("has_mx", "on_mx"), ("False", "True")), (("name",), ("rocm", "")))


def test_answers_that_environments_tell_apart_name_them(samples: ModuleType) -> None:
    records = [
        asked(samples, "gfx942", "gate", answer, environment=environment)
        for environment, answer in (("off", "False"), ("on", "True"), ("on_too", "True"))
    ]
    assert grids(records)[0].rows == ((("gate",), ("False (off); True (on, on_too)",)),)


def test_answers_that_differ_within_an_environment_are_counted(samples: ModuleType) -> None:
    records = [
        asked(samples, "gfx942", "gate", answer, layer=layer) for layer, answer in zip("abc", "TTF", strict=True)
    ]
    assert grids(records)[0].rows == ((("gate",), ("T x2, F x1",)),)


def test_an_empty_answer_is_not_taken_for_a_question_that_was_not_asked(samples: ModuleType) -> None:
    assert grids([asked(samples, "gfx942", "name", "")])[0].rows == ((("name",), ("''",)),)


def test_each_surface_has_a_line_and_those_that_choose_have_none(samples: ModuleType) -> None:
    records = [
        samples.record("a"),
        samples.record("b", surface=Surface.AITER_GATE, outcome=Outcome.FAILED),
        samples.record("c", surface=Surface.AITER_GATE),
        samples.record("d", surface=Surface.TUNED_GATE, outcome=Outcome.INDETERMINATE, chosen=None),
    ]
    assert answers(records) == (
        Answers("AITER gates", 2, {Outcome.PASSED: 1, Outcome.FAILED: 1}),
        Answers("tuned-table gates", 1, {Outcome.INDETERMINATE: 1}),
    )
    assert [grid.title for grid in grids(records)] == ["AITER gates", "tuned-table gates"]
    assert answers([samples.record()]) == grids([samples.record()]) == ()


def test_no_answer_is_lost_in_a_grid(samples: ModuleType) -> None:
    records = [
        asked(samples, target, kernel, f"{target[-1]}{kernel}") for target in ("gfx942", "gfx950") for kernel in "ab"
    ]
    (grid,) = grids(records)
    assert {value for _, line in grid.rows for value in line} == {"2a", "2b", "0a", "0b"}
