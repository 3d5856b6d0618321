"""The page of one run as Markdown (GitHub's and Buildkite's kind), written as ``report.md``.

In: a ``Summary``. Out: Markdown. All foreign text (vLLM's words, names, paths) goes into code spans, in which
GitHub makes neither HTML nor links, mentions or issue references of it; the page's own words are plain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.model.record import Outcome
from harness.report.faults import Fault, Undecided
from harness.report.routes import Block, Refusal
from harness.report.summary import Summary, TargetLine, tally
from harness.report.text import capped, counted, one_line

FAULTS = 40
UNDECIDED = 30
REFUSALS = 8
_ELSEWHERE = "`check.json`"
_DASH = "-"


def markdown(summary: Summary) -> str:
    """The whole page."""
    header = [[f"**{label}**", code(text)] for label, text in summary.header]
    lines = [f"# gfxloop: {'PASSED' if summary.gate.passed else 'FAILED'}", ""]
    lines += [f"{tally(summary.outcomes)} on {code(summary.subject)}.", ""]
    lines += [f"- blocks: {reason}" for reason in summary.gate.reasons]
    lines += [f"- note: {code(note)}" for note in summary.notes]
    lines += section("Failures", capped([_fault(f) for f in summary.failures], FAULTS, "item", _ELSEWHERE))
    lines += section(
        "Known failures and findings", capped([_fault(f) for f in summary.known], FAULTS, "item", _ELSEWHERE)
    )
    lines += section("What is chosen", _overview(summary.overview))
    lines += section("Why: what was refused before it", _details(summary.details))
    lines += section("Not decided", capped([_undecided(u) for u in summary.undecided], UNDECIDED, "item", _ELSEWHERE))
    lines += section("Targets", table(("target", "", "outcomes"), [_target(line) for line in summary.targets]))
    lines += [
        "",
        *folded("Where the facts about the targets come from", [f"- {code(text)}" for text in summary.sources]),
    ]
    lines += section("The run", table(("fact", "value"), header))
    return joined(lines)


def joined(lines: Sequence[str]) -> str:
    """Lines as a document, without two blank lines in a row."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def section(title: str, body: Sequence[str]) -> list[str]:
    """A heading and its body; nothing at all for an empty body."""
    return ["", f"## {title}", "", *body] if body else []


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of cells that are Markdown already; a bar inside a cell is escaped here."""
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] if rows else []


def code(text: str) -> str:
    """Foreign text as a code span that nothing in it can end."""
    shown = one_line(text)
    if not shown:
        return "(empty)"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    # One blank on each side is not part of the span; it keeps a backtick at the edge apart from the fence.
    pad = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def folded(title: str, body: Sequence[str]) -> list[str]:
    """A block that the reader opens; ``title`` is HTML of the page's own."""
    return ["<details>", f"<summary>{title}</summary>", "", *body, "", "</details>", ""]


def placed(targets: str, where: str) -> str:
    """Targets and conditions of an entry, as one code span each."""
    return code(targets) + (f", {code(where)}" if where else "")


def _fault(fault: Fault) -> str:
    outcomes = ", ".join(f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in fault.outcomes)
    lines = [f"- {code(fault.rule)} at {code(fault.symbol)}: {outcomes} on {placed(fault.targets, fault.where)}"]
    lines += [f"{code(message)} ({counted(count, 'cell')})" for message, count in fault.messages]
    lines += [f"{counted(fault.more_messages, 'other wording')} in {_ELSEWHERE}"] if fault.more_messages else []
    if fault.words not in dict(fault.messages):
        lines.append(f"why: {code(fault.words)}")
    lines += [f"chosen: {', '.join(map(code, fault.chosen[:4]))}", f"reproduce: {code(fault.reproduce)}"]
    return "\n  - ".join(lines)


def _overview(blocks: Sequence[Block]) -> list[str]:
    rows = []
    for block in blocks:
        chosen = "<br>".join(
            f"{code(choice.chosen)} x{choice.cells}" + (f" ({code(choice.where)})" if choice.where else "")
            for choice in block.choices
        )
        rows.append([code(block.family), code(block.targets), chosen])
    return table(("family", "targets", "chosen (cells)"), rows)


def _details(blocks: Sequence[Block]) -> list[str]:
    """One folded list a family: kernel and targets, what is chosen, each refusal with vLLM's words."""
    families: dict[str, list[Block]] = {}
    for block in blocks:
        families.setdefault(block.family, []).append(block)
    lines: list[str] = []
    for family, members in families.items():
        # A summary element is HTML, where a code span means nothing: only characters that are plain in both stay.
        name = re.sub(r"[^\w .-]", "_", one_line(family))
        body = [line for block in members for line in _detail(block)]
        lines += folded(f"{name}: {counted(sum(block.cells for block in members), 'cell')}", body)
    return lines


def _detail(block: Block) -> list[str]:
    chosen = ", ".join(
        code(choice.chosen) + (f" ({code(choice.where)})" if choice.where else "") for choice in block.choices
    )
    kernels = ", ".join(map(code, block.kernels))
    head = f"- {kernels} on {code(block.targets)} gets {chosen} ({counted(block.cells, 'cell')})"
    refusals = [_refusal(refusal) for refusal in block.refusals]
    return [head, *(f"  - {line}" for line in capped(refusals, REFUSALS, "wording", _ELSEWHERE))]


def _refusal(refusal: Refusal) -> str:
    category = f" [{refusal.category.value}]" if refusal.category else ""
    words = code(refusal.words) if refusal.words else "no reason given"
    place = "; ".join(part for part in (refusal.targets, refusal.where) if part)
    return f"{code(refusal.candidate)} refused{category}: {words} x{refusal.cells}" + (
        f" ({code(place)})" if place else ""
    )


def _undecided(group: Undecided) -> str:
    place = placed(group.targets, group.where)
    return f"- {group.cells} {group.outcome.value.replace('_', ' ')} on {place}: {code(group.reason)}"


def _target(line: TargetLine) -> list[str]:
    outcomes = {outcome: count for outcome, count in line.outcomes.items() if outcome is not Outcome.PASSED}
    passed = line.outcomes.get(Outcome.PASSED, 0)
    others = ", ".join(f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in outcomes.items())
    return [code(line.name), line.attachment.value, f"{passed} passed" + (f", {others}" if others else "")]
