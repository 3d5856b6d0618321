"""The page of one run on a terminal: failures first, the routing table, the verdict and the report's path last.

In: a summary and a rich ``Console``. Out: text on that console. Foreign text goes through ``one_line`` and never
through rich's markup, so that it can neither colour nor move anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.compare.gate import Gate
from harness.report.changes import Change, ComparisonSummary, Side
from harness.report.faults import Fault, Undecided
from harness.report.routes import Block, Choice
from harness.report.summary import Summary
from harness.report.text import capped, counted, one_line

FAULTS = 20
CHANGES = 25
UNDECIDED = 10
_PIPE_WIDTH = 140


def console_for(stream: IO[str]) -> Console:
    """A console that colours only a terminal, and keeps a readable width where there is none (a file, a CI log)."""
    return Console(
        file=stream, highlight=False, markup=False, emoji=False, width=None if stream.isatty() else _PIPE_WIDTH
    )


def print_check(summary: Summary, console: Console, report: Path) -> None:
    """Print the page of one run.

    Args:
        summary: of the run.
        console: on stdout, as ``console_for`` makes it.
        report: the path named in the last line.
    """
    for label, text in summary.header:
        _line(console, f"{label + ':':<13}{one_line(text)}", "dim")
    for note in summary.notes:
        _line(console, f"note: {one_line(note)}", "yellow")
    _section(console, "failures", (_fault(fault) for fault in summary.failures), FAULTS, str(report), "red")
    _section(console, "known failures and findings", (_fault(f) for f in summary.known), FAULTS, str(report), "yellow")
    _section(console, "not decided", (_undecided(u) for u in summary.undecided), UNDECIDED, str(report), "yellow")
    if summary.overview:
        console.print()
        console.print(_routes(summary.overview))
    _end(console, summary.gate, summary.verdict_line, report)


def print_comparison(summary: ComparisonSummary, console: Console, report: Path) -> None:
    """Print the page of one comparison (see ``print_check``)."""
    _line(console, f"baseline:    {summary.baseline}", "dim")
    _line(console, f"candidate:   {summary.candidate}", "dim")
    for fact in summary.differs:
        _line(console, f"differs:     {one_line(fact)}", "yellow")
    _section(console, "changed", (_change(change) for change in summary.told), CHANGES, str(report), "bold")
    _section(console, "other rows", (_counted(change) for change in summary.counted), CHANGES, str(report), "dim")
    _end(console, summary.gate, summary.verdict_line, report)


def _section(
    console: Console, title: str, entries: Iterable[Sequence[str]], limit: int, report: str, style: str
) -> None:
    """A title and entries; the first line of an entry stands out, the others are indented."""
    joined = capped(["\n".join(entry) for entry in entries], limit, "item", report)
    if not joined:
        return
    console.print()
    _line(console, title.upper(), style)
    for entry in joined:
        first, *others = entry.split("\n")
        _line(console, f"- {first}", "bold")
        for other in others:
            _line(console, f"    {other}", "")


def _fault(fault: Fault) -> list[str]:
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in fault.outcomes)
    lines = [f"{one_line(fault.rule)} at {one_line(fault.symbol)}: {outcomes} on {fault.targets}"]
    lines += [f"in: {fault.where}"] if fault.where else []
    lines += [f"{one_line(message)} ({counted(count, 'cell')})" for message, count in fault.messages]
    lines += [f"{counted(fault.more_messages, 'other wording')}"] if fault.more_messages else []
    if fault.words not in dict(fault.messages):
        lines.append(f"why: {one_line(fault.words)}")
    return [*lines, f"chosen: {', '.join(map(one_line, fault.chosen[:4]))}", f"reproduce: {one_line(fault.reproduce)}"]


def _undecided(group: Undecided) -> list[str]:
    place = f" ({group.where})" if group.where else ""
    return [f"{group.cells} {group.outcome.value} on {group.targets}{place}: {one_line(group.reason)}"]


def _change(change: Change) -> list[str]:
    word = change.verdict.value + (", rerouted" if change.rerouted and change.verdict.value != "rerouted" else "")
    place = f" ({change.where})" if change.where else ""
    lines = [f"{word}: {one_line(change.family)} on {change.targets}{place}: {counted(change.cells, 'cell')}"]
    for name, side in (("before", change.before), ("after ", change.after)):
        lines += _side(name, side) if side else []
    return [*lines, f"reproduce: {one_line(change.reproduce)}"]


def _side(name: str, side: Side) -> list[str]:
    lines = [f"{name} {one_line(side.label)} [{side.outcome}]"]
    lines += [f"       {one_line(reason)}" for reason in side.reasons]
    return lines + ([f"       {counted(side.more_reasons, 'other wording')}"] if side.more_reasons else [])


def _counted(change: Change) -> list[str]:
    place = f" ({change.where})" if change.where else ""
    why = f": {one_line(change.why)}" if change.verdict.value == "not_comparable" else ""
    return [f"{change.verdict.value}: {counted(change.cells, 'cell')} on {change.targets}{place}{why}"]


def _routes(blocks: Sequence[Block]) -> Table:
    """Target x family -> kernels; a family is named once, targets that are equal share a row."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("family", "targets", "chosen (cells)"):
        table.add_column(title, overflow="fold")
    previous = ""
    for block in blocks:
        family = "" if block.family == previous else one_line(block.family)
        previous = block.family
        table.add_row(Text(family), Text(block.targets), Text("\n".join(map(_choice, block.choices))))
    return table


def _choice(choice: Choice) -> str:
    place = f" ({choice.where})" if choice.where else ""
    return f"{one_line(choice.chosen)} x{choice.cells}{place}"


def _end(console: Console, gate: Gate, verdict_line: str, report: Path) -> None:
    console.print()
    for reason in gate.reasons:
        _line(console, f"blocks: {one_line(reason)}", "red")
    _line(console, verdict_line, "bold green" if gate.passed else "bold red")
    _line(console, f"report: {report}", "")


def _line(console: Console, text: str, style: str) -> None:
    """One line, never wrapped or cut: a command in it can be copied, and a script can read it."""
    console.print(Text(text, style=style), soft_wrap=True)
