"""Markdown as GitHub and Buildkite read it: the pieces that both pages are made of.

In: text, which may be foreign (vLLM's words, names, paths) or the page's own. Out: lines of Markdown. Foreign text goes
into code spans, in which GitHub makes neither HTML nor links, mentions or issue references of it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.report.text import one_line


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


def codes(texts: Iterable[str]) -> str:
    """Foreign texts as code spans in one list."""
    return ", ".join(map(code, texts))


def folded(title: str, body: Sequence[str]) -> list[str]:
    """A block that the reader opens; ``title`` is HTML of the page's own."""
    return ["<details>", f"<summary>{title}</summary>", "", *body, "", "</details>", ""] if body else []


def placed(targets: str, where: str) -> str:
    """Targets and conditions of an entry, as one code span each."""
    return code(targets) + (f" ({code(where)})" if where else "")


def nested(head: str, lines: Sequence[str]) -> str:
    """An item of a list with items below it."""
    return "\n  - ".join([f"- {head}", *lines])
