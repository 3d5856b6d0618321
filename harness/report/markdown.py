"""The page of one run as Markdown, written as ``report.md``: what a reviewer reads.

In: a ``Summary``. Out: Markdown: verdict, findings, what is chosen and refused and why, what is undecided, how to
reproduce it, the facts about the targets. It collapses, and says where the rest is.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.record import Outcome
from harness.report.causes import Wording
from harness.report.faults import Fault
from harness.report.grids import Grid
from harness.report.markup import code, codes, folded, joined, nested, placed, section, table
from harness.report.routes import Block, Choice, Family, Refusal, Scheme
from harness.report.summary import Summary, TargetLine, tally
from harness.report.text import capped, counted
from harness.report.undecided import Undecided

FAULTS = 40
UNDECIDED = 30
REFUSALS = 40
CONSEQUENCES = 4
_ELSEWHERE = "`check.json`"
_TOP = ("subject", "AITER", "environment", "packages", "tiers", "attached", "simulated")
"""Lines of the summary's header that a reader needs before anything else; the others come with the last sections."""
_LEFT_OUT = (
    "Left out here: the single cells with their evidence, the candidates that were not reached, and the expectation of "
    "each cell. They are in `check.json`, a JUnit page is in `junit.xml`, the records themselves in `records-*.jsonl`."
)


def markdown(summary: Summary) -> str:
    """The whole page."""
    lines = [f"# gfxloop: {'PASSED' if summary.gate.passed else 'FAILED'}", ""]
    lines += [f"{tally(summary.outcomes)} on {code(summary.subject)}.", ""]
    lines += [f"- blocks: {reason}" for reason in summary.gate.reasons]
    lines += [f"- note: {code(note)}" for note in summary.notes]
    lines += [f"- {label}: {code(text)}" for label, text in summary.header if label in _TOP]
    lines += section("Failures", capped([_fault(f) for f in summary.failures], FAULTS, "item", _ELSEWHERE))
    known = capped([_fault(f) for f in summary.known], FAULTS, "item", _ELSEWHERE)
    lines += section("Known failures and findings", known)
    lines += section("What is chosen, what is refused and why", _routes(summary.families))
    lines += section("Not decided", capped([_undecided(u) for u in summary.undecided], UNDECIDED, "item", _ELSEWHERE))
    lines += section("Targets", table(("target", "", "outcomes"), [_target(line) for line in summary.targets]))
    lines += section("How to reproduce", _reproduce(summary))
    lines += section("Platform facts and gates", [line for grid in summary.grids for line in _grid(grid)])
    return joined(lines)


def _fault(fault: Fault) -> str:
    outcomes = ", ".join(f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in fault.outcomes)
    head = f"{code(fault.rule)} at {code(fault.symbol)} ({fault.surface.value}): {outcomes}"
    lines = [_wording(message) for message in fault.messages]
    lines += [f"{counted(fault.more_messages, 'other cause')} in {_ELSEWHERE}"] if fault.more_messages else []
    lines += [f"why: {code(fault.words)}"] if fault.words else []
    lines += [f"chosen: {codes(fault.chosen[:4])}", f"reproduce: {code(fault.reproduce)}"]
    return nested(f"{head} on {placed(fault.targets, fault.where)}", lines)


def _wording(message: Wording) -> str:
    like = f", {message.texts} wordings" if message.texts > 1 else ""
    return f"{code(message.example)} ({counted(message.cells, 'cell')}{like})"


def _routes(families: Sequence[Family]) -> list[str]:
    """A heading a family; below it what each scheme gets, a row a set of targets, and the refusals of all, folded."""
    lines: list[str] = []
    for family in families:
        refusals = [_refusal(refusal) for refusal in family.refusals]
        lines += ["", f"### {code(family.name)}", *(line for scheme in family.schemes for line in _scheme(scheme)), ""]
        title = f"refused, and why: {counted(len(refusals), 'reason')}"
        lines += folded(title, capped(refusals, REFUSALS, "reason", _ELSEWHERE))
    return (
        ["Targets in one row never get different kernels for a cell that two of them are asked.", *lines]
        if lines
        else []
    )


def _scheme(scheme: Scheme) -> list[str]:
    rows = [[code(block.targets), _choices(block)] for block in scheme.blocks]
    return ["", f"{codes(scheme.kernels)}, {counted(scheme.cells, 'cell')}:", "", *table(("on", "gets (cells)"), rows)]


def _choices(block: Block) -> str:
    return "<br>".join(map(_choice, block.choices))


def _choice(choice: Choice) -> str:
    return f"{code(choice.chosen)} x{choice.cells}" + (f" ({code(choice.where)})" if choice.where else "")


def _refusal(refusal: Refusal) -> str:
    words = code(refusal.words) if refusal.words else "no reason given"
    like = f" ({counted(refusal.texts, 'wording')})" if refusal.texts > 1 else ""
    category = f" [{refusal.category.value}]" if refusal.category else ""
    names = codes(refusal.candidates) or "no candidate"
    return f"- {names}: {words}{like}{category} on {placed(refusal.targets, refusal.where)}"


def _undecided(group: Undecided) -> str:
    head = f"{group.cells} {group.outcome.value.replace('_', ' ')} on {placed(group.targets, group.where)}"
    like = f"; {group.reasons} such reasons" if group.reasons > 1 else ""
    families = ", ".join(f"{code(family)} x{count}" for family, count in group.families)
    lines = [f"{code(group.example)}{like}", f"to do: {code(group.to_do)}", f"families: {families}"]
    then = [f"{code(words)} x{count}" for words, count in group.consequences]
    return nested(head, lines + capped(then, CONSEQUENCES, "consequence", _ELSEWHERE))


def _target(line: TargetLine) -> list[str]:
    outcomes = {outcome: count for outcome, count in line.outcomes.items() if outcome is not Outcome.PASSED}
    passed = line.outcomes.get(Outcome.PASSED, 0)
    others = ", ".join(f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in outcomes.items())
    return [code(line.name), line.attachment.value, f"{passed} passed" + (f", {others}" if others else "")]


def _reproduce(summary: Summary) -> list[str]:
    rest = [[label, code(text)] for label, text in summary.header if label not in _TOP]
    sources = [
        f"- {code(source)}" + (f": {code(', '.join(names))}" if names else "") for source, names in summary.sources
    ]
    return [
        f"One cell: {code(summary.reproduce)}, with the ID of any record.",
        "",
        *table(("the run", ""), rest),
        "",
        _LEFT_OUT,
        "",
        *folded("Where the facts about the targets come from", sources),
    ]


def _grid(grid: Grid) -> list[str]:
    rows = [
        ["<br>".join(map(code, names)), *(code(told) if told else "" for told in line)] for names, line in grid.rows
    ]
    body = table((f"{grid.title}: {code(grid.family)}", *map(code, grid.columns)), rows)
    return [*body, ""]
