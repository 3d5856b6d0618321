"""Words of a report: foreign text made harmless, and sets of names listed compactly.

In: text of vLLM, of exceptions, of names and paths, which may hold anything. Out: one line that shows what was there.
Pure.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence

# Control characters, line and paragraph separators, zero-width and bidirectional controls, surrogates: what could move
# the cursor, recolour a terminal, reorder what a reader sees, or break a file format.
_INVISIBLE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\uffff\\ud800-\\udfff]"
)
_BLANKS = re.compile(r"[ \t\r\n]+")


def one_line(text: str, limit: int = 400) -> str:
    """Foreign text as one visible line, cut at ``limit``: blanks joined, invisible characters as Python escapes."""
    joined = _BLANKS.sub(" ", text[: 4 * limit]).strip()
    visible = _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), joined)
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


def from_difference(text: str, other: str, limit: int = 200) -> str:
    """A long text from the part on in which it differs from another; parts end in ``;`` or ``|``. A short one whole.

    ``A: device yes; shape no`` against ``A: device yes; shape yes`` is ``… shape no``, if it is longer than ``limit``.
    """
    if len(text) <= limit or text == other:
        return text
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))
    start = max(text.rfind(mark, 0, same) + len(mark) if mark in text[:same] else 0 for mark in ("; ", "| "))
    return f"… {text[start:]}" if start else text


def counted(count: int, noun: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Iterable[str], universe: Collection[str] = (), limit: int = 6) -> str:
    """Names in natural order, compactly.

    Args:
        names: what to list.
        universe: all names there are; where ``names`` is all of two or more, the answer is ``all N``, and where it
            lacks one of four or more, ``all but x``.
        limit: how many names at most, before ``+N more``.
    """
    chosen = sorted(set(names), key=natural)
    missing = sorted(set(universe) - set(chosen), key=natural)
    if len(universe) > 1 and not missing:
        return f"all {len(chosen)}"
    if len(universe) > 3 and len(missing) == 1 and len(chosen) > 2:
        return f"all but {missing[0]}"
    if len(chosen) > limit:
        return ", ".join(chosen[:limit]) + f" +{len(chosen) - limit} more"
    return ", ".join(chosen)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key: digits by value, so that gfx950 comes before gfx1100."""
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    # Numbers are compared as (length, digits): int() refuses very long ones.
    return tuple((len(digits), digits) if (digits := part.lstrip("0")).isdecimal() else (-1, part) for part in parts)


def capped(lines: Sequence[str], limit: int, noun: str, where: str) -> list[str]:
    """At most ``limit`` lines, and one more that says how many are left out and where they are."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"... {counted(len(lines) - limit, noun)} more in {where}"]
