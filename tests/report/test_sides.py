from __future__ import annotations

from types import ModuleType
from typing import Any

from harness.model.record import Candidate, Finding, Outcome
from harness.report.sides import REASONS, side_of


def candidates(**states: Any) -> tuple[Candidate, ...]:
    """Name -> True, None, or the words of a refusal."""
    return tuple(
        Candidate(
            name=name,
            accepted=False if isinstance(state, str) else state,
            reason=state or "" if isinstance(state, str) else "",
        )
        for name, state in states.items()
    )


def test_both_kernels_tell_what_became_of_the_candidates_that_differ(samples: ModuleType) -> None:
    before = samples.record(chosen="B", candidates=candidates(A="off", B=True, C=None), reason="B")
    after = samples.record(chosen="C", candidates=candidates(A="off", B="N=7 is odd", C=True), reason="C")
    then, now = side_of([(before, after)]), side_of([(after, before)])
    assert then is not None
    assert now is not None
    assert (then.label, then.reasons) == ("B", ("B: accepted", "C: not reached"))
    assert (now.label, now.reasons) == ("C", ("B: refused: N=7 is odd", "C: accepted"))


def test_without_a_kernel_every_refusal_is_a_reason_and_the_new_ones_come_first(samples: ModuleType) -> None:
    before = samples.record(chosen="C", candidates=candidates(A="off", B="off", C=True))
    after = samples.record(chosen=None, candidates=candidates(A="off", B="off", C="C: needs FP8.."), reason="refused")
    side = side_of([(after, before)])
    assert side is not None
    assert side.label == "no kernel (vLLM refuses)"
    assert side.reasons == ("C: refused: needs FP8.", "A, B: refused: off")


def test_a_candidate_that_is_gone_is_told_where_it_was_reached(samples: ModuleType) -> None:
    before = samples.record(candidates=candidates(A="off", TritonBlock=True, Z=None))
    after = samples.record(candidates=candidates(TritonBlock=True))
    now = side_of([(after, before)])
    assert now is not None
    assert now.reasons == ("every rule holds", "A: not among the candidates")[1:]


def test_a_reason_that_holds_for_some_of_the_cells_is_counted(samples: ModuleType) -> None:
    other = samples.record(candidates=candidates(A=None, TritonBlock=True))
    cells = [
        samples.record(id_, candidates=candidates(A=words, TritonBlock=True))
        for id_, words in zip("abc", ("x", "x", "y"), strict=True)
    ]
    side = side_of([(cell, other) for cell in cells])
    assert side is not None
    assert side.reasons == ("A: refused: x (x2)", "A: refused: y (x1)")


def test_findings_come_before_the_candidates_and_are_told_once(samples: ModuleType) -> None:
    cells = [
        samples.record(
            id_, outcome=Outcome.FAILED, findings=(Finding(rule="r", symbol="s", message=f"N={id_} is odd"),)
        )
        for id_ in "123"
    ]
    side = side_of([(cell, cell) for cell in cells])
    assert side is not None
    assert side.reasons == ("N=1 is odd (3 wordings)",)


def test_without_candidates_the_records_reason_is_told_without_the_answer_in_it(samples: ModuleType) -> None:
    told = samples.record(candidates=(), chosen="launched", reason="launched; as expected: it serves all")
    bare = samples.record(candidates=(), chosen="True", reason="True")
    none = samples.record(candidates=(), chosen=None, reason="it lists no kernel")
    assert [getattr(side_of([(record, None)]), "reasons", None) for record in (told, bare, none)] == [
        ("as expected: it serves all",),
        (),
        ("it lists no kernel",),
    ]


def test_reasons_that_do_not_fit_are_counted(samples: ModuleType) -> None:
    words = ("red", "green", "blue", "old", "new", "wide", "tall", "low", "far", "near", "hot")
    after = samples.record(chosen=None, candidates=candidates(**{word: f"not {word}" for word in words}))
    side = side_of([(after, None)])
    assert side is not None
    assert (len(side.reasons), side.more_reasons) == (REASONS, len(words) - REASONS)


def test_no_pair_is_no_side() -> None:
    assert side_of([]) is None
