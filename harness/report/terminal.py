"""The page of one run on a terminal: failures first, what is chosen, the verdict and the report's path last.

In: a summary and a rich ``Console``. Out: text on that console, about 60 lines for a full run; all of it is in the
report too. Foreign text goes through ``one_line`` and never through rich's markup, so that it can neither colour nor
move anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.text import Text

from harness.compare.gate import Gate
from harness.model.run import Verdict
from harness.report.causes import Wording
from harness.report.changes import Change, ComparisonSummary
from harness.report.faults import Fault
from harness.report.grids import Answers
from harness.report.routes import Block
from harness.report.sides import REASONS, Side
from harness.report.summary import Summary
from harness.report.text import capped, counted, one_line
from harness.report.undecided import Undecided

FAULTS = 8
KNOWN = 4
CHANGES = 8
UNDECIDED = 6
ROWS = 40
_PIPE_WIDTH = 140
_MESSAGES = 2
_HEADER = ("subject", "AITER", "environment", "packages", "tiers", "attached", "simulated")
_ENDINGS = re.compile(r"(?<=.)(?:ScaledMM)?(?:Linear)?Kernel$")


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
    _header(console, [(label, text) for label, text in summary.header if label in _HEADER])
    for note in summary.notes:
        _line(console, f"note: {one_line(note)}", "yellow")
    _section(console, "failures", map(_fault, summary.failures), FAULTS, report, "red")
    _section(console, "known failures and findings", map(_fault, summary.known), KNOWN, report, "yellow")
    _routes(console, summary.overview, report)
    _answers(console, summary.answers)
    entries = (_undecided(group, console.width) for group in summary.undecided)
    _section(console, "not decided", entries, UNDECIDED, report, "yellow")
    _end(console, summary.gate, summary.verdict_line, report)


def print_comparison(summary: ComparisonSummary, console: Console, report: Path) -> None:
    """Print the page of one comparison (see ``print_check``): what matters most comes first."""
    _header(console, summary.header)
    for fact in summary.differs:
        _line(console, f"differs: {one_line(fact)}", "yellow")
    for title in dict.fromkeys(change.title for change in summary.told):
        entries = (_change(change) for change in summary.told if change.title == title)
        _section(console, title, entries, CHANGES, report, "red" if title == "Regressed" else "bold")
    _section(console, "other rows", map(_counted, summary.counted), CHANGES, report, "dim")
    _end(console, summary.gate, summary.verdict_line, report)


def _header(console: Console, lines: Sequence[tuple[str, str]]) -> None:
    width = max((len(label) for label, _ in lines), default=0) + 2
    for label, text in lines:
        _line(console, f"{label + ':':<{width}}{one_line(text)}", "dim")


def _section(
    console: Console, title: str, entries: Iterable[Sequence[str]], limit: int, report: Path, style: str
) -> None:
    """A title and entries; the first line of an entry stands out, the others are indented."""
    joined = capped(["\n".join(entry) for entry in entries], limit, "item", str(report))
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
    head = f"{one_line(fault.rule)} at {one_line(fault.symbol)} ({fault.surface.value}): {outcomes} on {fault.targets}"
    lines = [f"in: {fault.where}"] if fault.where else []
    lines += [_wording(message) for message in fault.messages[:_MESSAGES]]
    more = fault.more_messages + len(fault.messages[_MESSAGES:])
    lines += [counted(more, "other cause")] if more else []
    lines += [f"why: {one_line(fault.words)}"] if fault.words else []
    return [head, *lines, f"reproduce: {one_line(fault.reproduce)}"]


def _wording(message: Wording) -> str:
    like = f", {message.texts} wordings" if message.texts > 1 else ""
    return f"{one_line(message.example)} ({counted(message.cells, 'cell')}{like})"


def _undecided(group: Undecided, width: int) -> list[str]:
    """Two lines: the cause, cut to the width, then where it is and what to do, which is never cut."""
    families = ", ".join(f"{one_line(family)} {count}" for family, count in group.families)
    head = f"{group.cells} {group.outcome.value.replace('_', ' ')} ({families})"
    like = ", e.g. " if group.reasons > 1 else ": "
    first = one_line(f"{head}{like}{one_line(group.example)}", width - len("- "))
    return [first, f"on {group.targets}. To do: {one_line(group.to_do)}"]


def _routes(console: Console, blocks: Sequence[Block], report: Path) -> None:
    """One line a family and set of targets; as many kernels on it as the width allows, the others are counted."""
    if not blocks:
        return
    names = _short_names({choice.chosen for block in blocks for choice in block.choices})
    families = [one_line(block.family) for block in blocks]
    family_width, target_width = max(map(len, families)), max(len(block.targets) for block in blocks)
    console.print()
    _line(console, f"CHOSEN (kernel class without its common ending, cells; why and why not: {report.name})", "bold")
    lines = []
    for index, block in enumerate(blocks):
        family = "" if index and families[index] == families[index - 1] else families[index]
        head = f"{family:<{family_width}}  {block.targets:<{target_width}}  "
        lines.append(head + _kernels(block, names, console.width - len(head)))
    for line in capped(lines, ROWS, "row", str(report)):
        _line(console, line, "")


def _kernels(block: Block, names: Mapping[str, str], width: int) -> str:
    shown = [f"{names[choice.chosen]} {choice.cells}" for choice in block.choices]
    for count in range(len(shown), 0, -1):
        line = ", ".join(shown[:count]) + (f" +{len(shown) - count} more" if count < len(shown) else "")
        if len(line) <= width:
            return line
    return line


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Class names without their common endings (``...ScaledMMLinearKernel``), where that leaves them apart."""
    short = {name: one_line(_ENDINGS.sub("", name)) for name in names}
    taken = list(short.values())
    return {name: cut if taken.count(cut) == 1 else one_line(name) for name, cut in short.items()}


def _answers(console: Console, lines: Sequence[Answers]) -> None:
    if lines:
        console.print()
    for line in lines:
        outcomes = ", ".join(f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in line.outcomes.items())
        _line(console, f"{line.title}: {line.cells} asked, {outcomes}, see the report", "")


def _change(change: Change) -> list[str]:
    word = ", rerouted" if change.rerouted and change.verdict is not Verdict.REROUTED else ""
    head = f"{change.verdict.value}{word}: {one_line(change.family)} on {change.targets}"
    place = f" ({change.where})" if change.where else ""
    lines = [f"{head}{place}: {counted(change.cells, 'cell')}"]
    # A failure that was there before is not the news: one reason of each side is enough of it here.
    limit = 1 if change.verdict is Verdict.KNOWN else REASONS
    for name, side in (("before", change.before), ("after ", change.after)):
        lines += _side(name, side, limit) if side else []
    return [*lines, f"reproduce: {one_line(change.reproduce)}"]


def _side(name: str, side: Side, limit: int) -> list[str]:
    lines = [f"{name} {one_line(side.label)} [{side.outcome}]"]
    lines += [f"       {one_line(reason)}" for reason in side.reasons[:limit]]
    more = side.more_reasons + len(side.reasons[limit:])
    return lines + ([f"       {counted(more, 'other reason')}"] if more else [])


def _counted(change: Change) -> list[str]:
    place = f" ({change.where})" if change.where else ""
    why = f": {one_line(change.why)}" if change.verdict is Verdict.NOT_COMPARABLE else ""
    return [f"{change.title}: {counted(change.cells, 'cell')} on {change.targets}{place}{why}"]


def _end(console: Console, gate: Gate, verdict_line: str, report: Path) -> None:
    console.print()
    for reason in gate.reasons:
        _line(console, f"blocks: {one_line(reason)}", "red")
    _line(console, verdict_line, "bold green" if gate.passed else "bold red")
    _line(console, f"report: {report}", "")


def _line(console: Console, text: str, style: str) -> None:
    """One line, never wrapped or cut: a command in it can be copied, and a script can read it."""
    console.print(Text(text, style=style), soft_wrap=True)
