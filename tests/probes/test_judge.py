from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.matrix import Excepted, Expected, KnownFailure
from harness.model.cell import Cell, Layer, Surface
from harness.model.record import Attachment, Candidate, Ended, Evidence, Finding, Observation, Outcome, Record
from harness.model.subject import Aiter, Subject
from harness.probes.judge import REFUSAL, judge

SUBJECT = Subject(
    spec="pypi:0.33.0", version="0.33.0", digest="", aiter=Aiter(spec="stand-in", mode="stand-in"), env={"A": "1 2"}
)
KNOWN = KnownFailure(
    issue="https://example.org/1", owner="@me", expires=datetime.date(2026, 12, 31), reason="x", where="m.yaml:9:3"
)
FINDING = Finding(rule="private_import", symbol="f", message="imports rocm")
ANSWERED = Observation(ended=Ended.ANSWERED, chosen="Fast", symbol="Fast.is_supported")
REFUSED = Observation(
    ended=Ended.REFUSED, detail="No kernel", candidates=(Candidate(name="A", accepted=False, reason="r"),)
)


def expect(*allowed: str, never: tuple[str, ...] = ()) -> Expected:
    return Expected(
        allowed=frozenset(allowed) if allowed else None, never=frozenset(never), because="it is so", where="m.yaml:5:7"
    )


@pytest.fixture(scope="module")
def cell(make_cell: Callable[..., Cell]) -> Cell:
    return make_cell("fp8_block", target="gfx942/MI300X", layer=Layer("o", 7168, 2048))


Judged = Callable[..., Record]


@pytest.fixture(scope="module")
def judged(cell: Cell) -> Judged:
    return lambda seen, expected=None, known=None: judge(cell, seen, SUBJECT.options, expected, known)


# ---- outcomes


@pytest.mark.parametrize(
    ("seen", "expected", "known", "outcome"),
    [
        (ANSWERED, None, None, Outcome.PASSED),
        (ANSWERED, expect("Fast", "Faster"), None, Outcome.PASSED),
        (ANSWERED, expect(never=("Slow",)), None, Outcome.PASSED),
        (REFUSED, None, None, Outcome.PASSED),
        (REFUSED, expect(REFUSAL), None, Outcome.PASSED),
        (ANSWERED, expect("Slow"), None, Outcome.FAILED),
        (ANSWERED, expect(never=("Fast",)), None, Outcome.FAILED),
        (ANSWERED, expect("Fast", never=("Fast",)), None, Outcome.FAILED),
        (ANSWERED, expect(REFUSAL), None, Outcome.FAILED),
        (REFUSED, expect("Fast"), None, Outcome.FAILED),
        (REFUSED, expect(never=(REFUSAL,)), None, Outcome.FAILED),
        (ANSWERED.model_copy(update={"findings": (FINDING,)}), expect("Fast"), None, Outcome.FAILED),
        (Observation(ended=Ended.RAISED, detail="TypeError: x"), None, None, Outcome.CRASHED),
        (Observation(ended=Ended.RAISED, detail="x", findings=(FINDING,)), None, None, Outcome.FAILED),
        (Observation(ended=Ended.DIED, detail="x"), expect("Fast"), None, Outcome.CRASHED),
        (Observation(ended=Ended.TIMED_OUT, detail="x"), None, None, Outcome.TIMED_OUT),
        (Observation(ended=Ended.UNSUPPORTED, detail="x"), expect("Fast"), None, Outcome.UNSUPPORTED),
        (Observation(ended=Ended.INDETERMINATE, detail="x"), expect("Fast"), None, Outcome.INDETERMINATE),
        (Observation(ended=Ended.INDETERMINATE, detail="x", findings=(FINDING,)), None, None, Outcome.FAILED),
        (ANSWERED, None, KNOWN, Outcome.UNEXPECTED_PASS),
        (ANSWERED, expect("Slow"), KNOWN, Outcome.EXPECTED_FAILURE),
        (Observation(ended=Ended.RAISED, detail="x"), None, KNOWN, Outcome.EXPECTED_FAILURE),
        (Observation(ended=Ended.UNSUPPORTED, detail="x"), None, KNOWN, Outcome.UNSUPPORTED),
        (Observation(ended=Ended.INDETERMINATE, detail="x"), None, KNOWN, Outcome.INDETERMINATE),
    ],
)
def test_every_way_to_end_has_its_outcome(
    judged: Judged, seen: Observation, expected: Expected | None, known: KnownFailure | None, outcome: Outcome
) -> None:
    assert judged(seen, expected, known).outcome is outcome


# ---- what a record says


def test_a_broken_expectation_is_a_finding_at_the_symbol_with_the_place_in_the_matrix(judged: Judged) -> None:
    record = judged(ANSWERED, expect("Slow", REFUSAL, never=("Fast",)))
    (finding,) = record.findings
    assert (finding.rule, finding.symbol) == ("expectation", "Fast.is_supported")
    assert finding.message == (
        "fp8_block gives Fast on gfx942/MI300X: it is so. Expected Slow or a refusal, never Fast [m.yaml:5:7]"
    )
    assert record.reason == finding.message
    assert record.expected == "Slow or a refusal, never Fast: it is so"


def test_a_refusal_that_is_not_expected_says_that_vllm_refuses(judged: Judged) -> None:
    record = judged(REFUSED, expect("Fast"))
    assert record.reason == "vLLM refuses on gfx942/MI300X: it is so. Expected Fast [m.yaml:5:7]"


def test_the_probe_s_findings_come_before_the_expectation_s(judged: Judged) -> None:
    record = judged(ANSWERED.model_copy(update={"findings": (FINDING,)}), expect("Slow"))
    assert [finding.rule for finding in record.findings] == ["private_import", "expectation"]
    assert record.reason.startswith("imports rocm; fp8_block gives Fast")


def test_a_refusal_without_candidates_says_that_none_were_listed(judged: Judged) -> None:
    assert judged(REFUSED).reason == "vLLM refuses: No kernel"
    assert judged(REFUSED.model_copy(update={"candidates": ()})).reason.endswith("(it lists no kernel for this)")


def test_a_known_failure_names_its_issue_owner_and_date(judged: Judged) -> None:
    reason = judged(ANSWERED, expect("Slow"), KNOWN).reason
    for word in (KNOWN.issue, KNOWN.owner, "2026-12-31", KNOWN.where, "gives Fast"):
        assert word in reason
    assert judged(ANSWERED, None, KNOWN).reason.startswith("it passes; take out the known failure")


EXCEPTED = Excepted(
    rule="I12",
    issue="https://example.org/2",
    owner="@me",
    expires=datetime.date(2026, 12, 31),
    reason="y",
    where="m:1:1",
)


def test_an_invariant_is_judged_beside_the_probe_s_findings_and_the_expectation_s(judged: Judged) -> None:
    refuses = (Evidence(question="Fast.is_supported_config", answer="False: batched"),)
    seen = ANSWERED.model_copy(update={"findings": (FINDING,), "evidence": refuses})
    assert [finding.rule for finding in judged(seen, expect("Slow")).findings] == [
        "private_import",
        "I12",
        "expectation",
    ]


def test_an_exception_takes_the_findings_of_its_rule_alone_out_of_the_verdict(cell: Cell) -> None:
    refuses = (Evidence(question="Fast.is_supported_config", answer="False: batched"),)
    seen = ANSWERED.model_copy(update={"evidence": refuses})
    record = judge(cell, seen, SUBJECT.options, None, None, excepted={"I12": EXCEPTED})
    assert (record.outcome, record.findings) == (Outcome.PASSED, ())
    told = record.evidence[-1]
    assert told.question == "I12 excepted: Fast is chosen and Fast.is_supported_config says False: batched"
    assert (told.answer, told.source) == ("https://example.org/2, owner @me, until 2026-12-31: y", "m:1:1")
    other = judge(cell, seen, SUBJECT.options, expect("Slow"), None, excepted={"I12": EXCEPTED})
    assert [finding.rule for finding in other.findings] == ["expectation"]
    assert judge(cell, seen, SUBJECT.options, None, None, excepted={"I3": EXCEPTED}).outcome is Outcome.FAILED


def test_a_record_carries_the_question_and_the_command_that_asks_it_again(judged: Judged, cell: Cell) -> None:
    seen = ANSWERED.model_copy(update={"evidence": (Evidence(question="q", answer="a"),)})
    record = judged(seen)
    assert (record.id, record.target, record.device, record.attachment) == (
        cell.id,
        "gfx942",
        "MI300X",
        Attachment.SIMULATED,
    )
    assert (record.model, record.tp, record.layer, record.shape) == ("model", 1, "o", (7168, 2048))
    assert (record.chosen, record.evidence) == ("Fast", seen.evidence)
    assert shlex.split(record.reproduce) == ["gfxloop", "reproduce", cell.id, *shlex.split(SUBJECT.options)]


def test_an_attached_record_says_so(cell: Cell) -> None:
    assert (
        judge(cell, ANSWERED, SUBJECT.options, None, None, attachment=Attachment.ATTACHED).attachment
        is Attachment.ATTACHED
    )


def test_a_cell_without_a_layer_has_no_shape(make_cell: Callable[..., Cell]) -> None:
    record = judge(make_cell("is_enabled", surface=Surface.AITER_GATE), ANSWERED, SUBJECT.options, None, None)
    assert (record.model, record.layer, record.shape) == (None, None, None)


# ---- laws

_NAMES = st.sampled_from(["Fast", "Slow", "True", REFUSAL, ""])
_SETS = st.frozensets(_NAMES, max_size=3)
_OBSERVATIONS = st.builds(
    Observation,
    ended=st.sampled_from(Ended),
    chosen=st.none() | _NAMES,
    symbol=_NAMES,
    detail=st.sampled_from(["", " ", ": ", "words", "first\nReasons: "]),
    candidates=st.sampled_from([(), REFUSED.candidates]),
    findings=st.lists(
        st.builds(Finding, rule=st.just("r"), symbol=st.just("s"), message=st.sampled_from(["", "m"])), max_size=2
    ).map(tuple),
)
_EXPECTED = st.none() | st.builds(
    Expected, allowed=st.none() | _SETS, never=_SETS, because=st.just("b"), where=st.just("w")
)


@given(_OBSERVATIONS, _EXPECTED, st.none() | st.just(KNOWN))
def test_every_observation_has_a_record_with_a_reason(
    judged: Judged, seen: Observation, expected: Expected | None, known: KnownFailure | None
) -> None:
    record = judged(seen, expected, known)
    assert record.reason.strip()
    assert Record.model_validate_json(record.model_dump_json()) == record


@given(_OBSERVATIONS, _EXPECTED, st.none() | st.just(KNOWN))
def test_only_an_answer_passes(
    judged: Judged, seen: Observation, expected: Expected | None, known: KnownFailure | None
) -> None:
    if judged(seen, expected, known).outcome in (Outcome.PASSED, Outcome.UNEXPECTED_PASS):
        assert seen.ended in (Ended.ANSWERED, Ended.REFUSED)
        assert not seen.findings


@given(_OBSERVATIONS, _EXPECTED, st.none() | st.just(KNOWN))
def test_a_fault_that_the_probe_saw_is_never_good_news(
    judged: Judged, seen: Observation, expected: Expected | None, known: KnownFailure | None
) -> None:
    if seen.findings:
        assert judged(seen, expected, known).outcome is (Outcome.EXPECTED_FAILURE if known else Outcome.FAILED)


@given(_OBSERVATIONS, _EXPECTED)
def test_without_a_known_failure_nothing_is_excused(
    judged: Judged, seen: Observation, expected: Expected | None
) -> None:
    outcome = judged(seen, expected).outcome
    assert outcome not in (Outcome.EXPECTED_FAILURE, Outcome.UNEXPECTED_PASS)
    assert judged(seen, expected, KNOWN).outcome is (
        Outcome.EXPECTED_FAILURE
        if outcome.is_bad
        else Outcome.UNEXPECTED_PASS
        if outcome is Outcome.PASSED
        else outcome
    )
