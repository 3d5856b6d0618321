"""The page of one comparison as Markdown, written as ``compare.md``.

In: a ``ComparisonSummary``. Out: Markdown. Foreign text goes into code spans, as in ``harness.report.markdown``.
"""

from __future__ import annotations

from harness.model.run import Verdict
from harness.report.changes import Change, ComparisonSummary, Side
from harness.report.markdown import code, joined, placed, section
from harness.report.text import capped, counted

CHANGES = 60
_ELSEWHERE = "`compare.json`"
_TITLES = {
    Verdict.REGRESSED: "Regressed",
    Verdict.REROUTED: "Rerouted",
    Verdict.FIXED: "Fixed",
    Verdict.KNOWN: "Failing on both sides, but not in the same way",
}


def markdown_comparison(summary: ComparisonSummary) -> str:
    """The whole page."""
    counts = ", ".join(f"{count} {_word(verdict)}" for verdict, count in summary.verdicts.items())
    lines = [f"# gfxloop compare: {'PASSED' if summary.gate.passed else 'FAILED'}", ""]
    lines += [f"{code(summary.candidate)} against the baseline {code(summary.baseline)}: {counts or 'no row'}.", ""]
    lines += [f"- blocks: {reason}" for reason in summary.gate.reasons]
    lines += [f"- differs besides the tree: {code(fact)}" for fact in summary.differs]
    for verdict, title in _TITLES.items():
        entries = [_change(change) for change in summary.told if change.verdict is verdict]
        lines += section(title, capped(entries, CHANGES, "item", _ELSEWHERE))
    lines += section("Other rows", capped([_counted(c) for c in summary.counted], CHANGES, "item", _ELSEWHERE))
    return joined(lines)


def _word(verdict: Verdict) -> str:
    return verdict.value.replace("_", " ")


def _change(change: Change) -> str:
    word = ", rerouted" if change.rerouted and change.verdict is not Verdict.REROUTED else ""
    head = f"- {code(change.family)} on {placed(change.targets, change.where)}"
    lines = [f"{head}: {_word(change.verdict)}{word}, {counted(change.cells, 'cell')}"]
    for name, side in (("before", change.before), ("after", change.after)):
        lines += [_side(name, side)] if side else []
    return "\n  - ".join([*lines, f"reproduce: {code(change.reproduce)}"])


def _side(name: str, side: Side) -> str:
    lines = [f"{name}: {code(side.label)} ({side.outcome.replace('_', ' ')})", *map(code, side.reasons)]
    lines += [f"{counted(side.more_reasons, 'other wording')} in {_ELSEWHERE}"] if side.more_reasons else []
    return "\n    - ".join(lines)


def _counted(change: Change) -> str:
    why = f": {code(change.why)}" if change.verdict is Verdict.NOT_COMPARABLE else ""
    return f"- {_word(change.verdict)}: {counted(change.cells, 'cell')} on {placed(change.targets, change.where)}{why}"
