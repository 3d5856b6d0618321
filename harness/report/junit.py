"""JUnit XML, one testcase a record, for every CI that reads it.

In: a run. Out: an XML document as text. Failed and unexpectedly passed cells are failures, crashed and timed-out ones
are errors, everything undecided or known is skipped with its reason, so that no such cell looks like a pass.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from harness.model.record import Outcome, Record
from harness.model.run import Run
from harness.report.summary import subject_lines

_ELEMENT = {
    Outcome.FAILED: "failure",
    Outcome.UNEXPECTED_PASS: "failure",
    Outcome.CRASHED: "error",
    Outcome.TIMED_OUT: "error",
    Outcome.EXPECTED_FAILURE: "skipped",
    Outcome.UNSUPPORTED: "skipped",
    Outcome.NOT_RUN: "skipped",
    Outcome.INFRA: "skipped",
    Outcome.INDETERMINATE: "skipped",
}
# XML 1.0 cannot carry these, not even as a reference. A carriage return is legal but does not survive reading.
_ILLEGAL = re.compile("[^\\x09\\x0a\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def junit(run: Run) -> str:
    """The run as a JUnit XML document."""
    elements = [_case(record) for record in run.records]
    counts = {
        kind: sum(element.find(kind) is not None for element in elements) for kind in ("failure", "error", "skipped")
    }
    attributes = {
        "name": "gfxloop",
        "tests": str(len(elements)),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": "0",
        "timestamp": _clean(run.manifest.started),
    }
    root = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    _properties(suite, [*subject_lines(run.manifest.subject), ("matrix", run.manifest.matrix_digest)])
    suite.extend(elements)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _case(record: Record) -> ElementTree.Element:
    """One record."""
    classname = f"{record.tier.value}.{record.surface.value}.{record.target}"
    case = ElementTree.Element("testcase", {"classname": _clean(classname), "name": _clean(record.id), "time": "0"})
    facts = [
        ("device", record.device),
        ("attachment", record.attachment.value),
        ("chosen", record.chosen or ""),
        ("outcome", record.outcome.value),
    ]
    _properties(case, facts)
    if record.outcome in _ELEMENT:
        message = {"message": _clean(f"{record.outcome.value}: {record.reason}"), "type": record.outcome.value}
        ElementTree.SubElement(case, _ELEMENT[record.outcome], message).text = _clean(_body(record))
    return case


def _body(record: Record) -> str:
    """What a reader of the CI's page needs: the findings, the candidates with vLLM's words, the command."""
    lines = [f"{finding.rule} at {finding.symbol}: {finding.message}" for finding in record.findings]
    lines += [f"expected: {record.expected}"] if record.expected else []
    words = {None: "not reached", True: "accepted", False: "refused"}
    lines += [f"{c.name}: {words[c.accepted]}: {c.reason}".removesuffix(": ") for c in record.candidates]
    return "\n".join([*lines, f"reproduce: {record.reproduce}"])


def _properties(parent: ElementTree.Element, pairs: list[tuple[str, str]]) -> None:
    properties = ElementTree.SubElement(parent, "properties")
    for name, value in pairs:
        ElementTree.SubElement(properties, "property", {"name": name, "value": _clean(value)})


def _clean(text: str) -> str:
    """Text with the characters that XML cannot carry spelt out as Python escapes."""
    return _ILLEGAL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
