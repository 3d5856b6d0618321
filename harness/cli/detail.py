"""Everything about one record, for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from harness.model.record import Candidate, Record
from harness.model.subject import Subject

_MARK = {True: "taken", False: "passed over", None: "not reached"}


def print_record(record: Record, subject: Subject, console: Console) -> None:
    """Print a record: the answer, what was expected, the candidates in vLLM's order, and the evidence."""
    where = f"{record.target} ({record.device}, {record.attachment}), environment {record.environment}"
    console.print(Text(f"{record.id}\n{subject.spec} (vLLM {subject.version}), AITER {subject.aiter.spec}, {where}"))
    console.print(Text.assemble((record.outcome.value, "bold"), f": {record.reason}"))
    if record.expected:
        console.print(Text(f"expected: {record.expected}"))
    for finding in record.findings:
        console.print(Text(f"finding {finding.rule} at {finding.symbol}: {finding.message}"))
    if record.candidates:
        console.print(Text("candidates, in vLLM's order:"))
        for candidate in record.candidates:
            console.print(Text(f"  {candidate_line(candidate)}"))
    if record.evidence:
        console.print(Text("asked on the way:"))
        for item in record.evidence:
            console.print(Text(f"  {item.question} -> {item.answer}" + (f" ({item.source})" if item.source else "")))


def candidate_line(candidate: Candidate) -> str:
    """``Name: passed over (architecture): vLLM's words``."""
    category = f" ({candidate.category})" if candidate.category else ""
    words = candidate.reason.removeprefix(candidate.name).lstrip(": ")  # vLLM often begins with the name itself
    reason = f": {words}" if words else ""
    return f"{candidate.name}: {_MARK[candidate.accepted]}{category}{reason}"
