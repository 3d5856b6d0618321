from __future__ import annotations

from types import ModuleType
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.record import Candidate, Finding, Outcome
from harness.report.junit import junit

HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("outcome", "element"),
    [
        (Outcome.PASSED, None),
        (Outcome.FAILED, "failure"),
        (Outcome.UNEXPECTED_PASS, "failure"),
        (Outcome.CRASHED, "error"),
        (Outcome.TIMED_OUT, "error"),
        (Outcome.EXPECTED_FAILURE, "skipped"),
        (Outcome.UNSUPPORTED, "skipped"),
        (Outcome.NOT_RUN, "skipped"),
        (Outcome.INFRA, "skipped"),
        (Outcome.INDETERMINATE, "skipped"),
    ],
)
def test_each_outcome_has_its_element_with_the_reason(
    samples: ModuleType, outcome: Outcome, element: str | None
) -> None:
    root = ElementTree.fromstring(junit(samples.run(samples.record(outcome=outcome, reason="because"))))
    (case,) = root.iter("testcase")
    results = [child for child in case if child.tag != "properties"]
    assert [child.tag for child in results] == ([element] if element else [])
    assert all(child.get("message") == f"{outcome.value}: because" for child in results)
    assert (element in ("failure", "error")) == outcome.is_bad


def test_one_testcase_a_record_and_counts_that_add_up(samples: ModuleType) -> None:
    run = samples.realistic(faulty=True)
    root = ElementTree.fromstring(junit(run))
    cases = list(root.iter("testcase"))
    assert [case.get("name") for case in cases] == [record.id for record in run.records]
    assert {case.get("classname") for case in cases} >= {"route.linear.gfx942", "route.linear.cpu"}
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == (
        "576",
        "36",
        "0",
        "18",
    )


def test_the_subject_is_in_the_properties(samples: ModuleType) -> None:
    root = ElementTree.fromstring(junit(samples.run(samples.record())))
    properties = {item.get("name"): item.get("value") for item in root.iterfind("testsuite/properties/property")}
    assert (properties["subject"], properties["digest"]) == ("pypi:0.29.0 (vLLM 0.29.0)", "dpypi:0.29.0")
    assert properties["matrix"] == "m1"


@given(text=HOSTILE)
def test_any_text_gives_a_document_that_reads_back(samples: ModuleType, text: str) -> None:
    record = samples.record(
        text,
        outcome=Outcome.FAILED,
        reason=text,
        chosen=text,
        candidates=(Candidate(name=text, accepted=False, reason=text),),
        findings=(Finding(rule=text, symbol=text, message=text),),
        expected=text,
    )
    root = ElementTree.fromstring(junit(samples.run(record, spec=text)).encode("utf-8"))
    (case,) = root.iter("testcase")
    assert len(list(case)) == 2
    if text.isprintable():
        assert case.get("name") == text


def test_control_characters_are_spelt_out(samples: ModuleType) -> None:
    root = ElementTree.fromstring(
        junit(samples.run(samples.record(outcome=Outcome.CRASHED, reason="a\x00\x1b\r\ud800")))
    )
    (error,) = root.iter("error")
    assert error.get("message") == "crashed: a\\x00\\x1b\\r\\ud800"
