"""The page of one comparison as Markdown, written as ``compare.md``.

In: a ``ComparisonSummary``. Out: Markdown: what blocks, then regressed, fixed, rerouted, each with both kernels and
both reasons, then the rest. Foreign text goes into code spans (see ``harness.report.markup``).
"""

from __future__ import annotations

from harness.model.run import Verdict
from harness.report.changes import Change, ComparisonSummary
from harness.report.markup import code, joined, nested, placed, section
from harness.report.sides import Side
from harness.report.text import capped, counted

CHANGES = 60
_ELSEWHERE = "`compare.json`"


def markdown_comparison(summary: ComparisonSummary) -> str:
    """The whole page."""
    counts = ", ".join(f"{count} {_word(verdict)}" for verdict, count in summary.verdicts.items())
    lines = [f"# gfxloop compare: {'PASSED' if summary.gate.passed else 'FAILED'}", ""]
    lines += [f"{code(summary.candidate)} against the baseline {code(summary.baseline)}: {counts or 'no row'}.", ""]
    lines += [f"- blocks: {reason}" for reason in summary.gate.reasons]
    lines += [f"- {label}: {code(text)}" for label, text in summary.header]
    lines += [f"- differs besides the tree: {code(fact)}" for fact in summary.differs]
    for title in dict.fromkeys(change.title for change in summary.told):
        entries = [_change(change) for change in summary.told if change.title == title]
        lines += section(title, capped(entries, CHANGES, "item", _ELSEWHERE))
    lines += section("Other rows", capped([_counted(c) for c in summary.counted], CHANGES, "item", _ELSEWHERE))
    return joined(lines)


def _word(verdict: Verdict) -> str:
    return verdict.value.replace("_", " ")


def _change(change: Change) -> str:
    word = ", rerouted" if change.rerouted and change.verdict is not Verdict.REROUTED else ""
    place = f"{code(change.family)} on {placed(change.targets, change.where)}"
    head = f"{place}: {_word(change.verdict)}{word}, {counted(change.cells, 'cell')}"
    sides = [_side(name, side) for name, side in (("before", change.before), ("after", change.after)) if side]
    return nested(head, [*sides, f"reproduce: {code(change.reproduce)}"])


def _side(name: str, side: Side) -> str:
    lines = [f"{name}: {code(side.label)} ({side.outcome.replace('_', ' ')})", *map(code, side.reasons)]
    lines += [f"{counted(side.more_reasons, 'other reason')} in {_ELSEWHERE}"] if side.more_reasons else []
    return "\n    - ".join(lines)


def _counted(change: Change) -> str:
    why = f": {code(change.why)}" if change.verdict is Verdict.NOT_COMPARABLE else ""
    return f"- {change.title}: {counted(change.cells, 'cell')} on {placed(change.targets, change.where)}{why}"
