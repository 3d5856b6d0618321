"""Many answers as one line: inputs with the same answer stand together, so that one other answer changes the line.

In: names of inputs with what was answered, or answers of the subject. Out: text without addresses or paths. Pure.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

_WORDS = 120
"""Characters of a reason that are kept: vLLM's own sentence, without a whole configuration behind it."""

_ANSWERS = 8
"""Different answers that are written out; of more only their number and the digest."""

_INNERMOST = re.compile(r"\([^()]*\)")


def grouped(answers: Iterable[tuple[str, str]], separator: str = " | ") -> str:
    """``others: AITER > TRITON | lora,bias: TRITON``: the names of each answer, in the order of their first.

    The names of the commonest answer are left out: they are those that no other answer has.

    Args:
        answers: name of an input, and the answer to it.
        separator: between two answers.
    """
    names: dict[str, list[str]] = {}
    for name, answer in answers:
        names.setdefault(answer, []).append(name)
    commonest = max(names.values(), key=len, default=[])
    if len(commonest) > 1:
        others = ["all" if len(names) == 1 else "others"]
        names = {answer: others if group is commonest else group for answer, group in names.items()}
    return separator.join(f"{','.join(group)}: {answer}" for answer, group in names.items())


def counted(answers: Iterable[tuple[str, str]]) -> str:
    """``no bias 4, takes 12 #1c0f``: how often each answer is given, and a digest of which input has which."""
    listed = list(answers)
    counts: dict[str, int] = {}
    for _, answer in listed:
        counts[answer] = counts.get(answer, 0) + 1
    if len(counts) == 1:
        return next(iter(counts))
    digest = zlib.crc32("\n".join(f"{name}={answer}" for name, answer in sorted(listed)).encode()) & 0xFFFF
    told = ", ".join(f"{answer} {count}" for answer, count in sorted(counts.items()))
    return f"{told if len(counts) <= _ANSWERS else f'{len(counts)} answers'} #{digest:04x}"


def said(words: object) -> str:
    """A reason in vLLM's words, without what stands in brackets: dumps of whole configurations."""
    text = str(words)
    while _INNERMOST.search(text):
        text = _INNERMOST.sub("", text)
    return " ".join(text.split())[:_WORDS].strip()


def shown(value: Any, names: Mapping[Any, str]) -> str:
    """An answer as text; of an object that is none of the known kinds only the name of its type.

    Args:
        value: what the subject answered.
        names: objects that the subject has names for, like quantization keys.
    """
    if value is None or isinstance(value, bool | int | str):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        parts = [shown(item, names) for item in value]
        return f"[{' '.join(sorted(parts) if isinstance(value, set | frozenset) else parts)}]"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, type):
        return value.__name__
    return _named(value, names)


def _named(value: Any, names: Mapping[Any, str]) -> str:
    try:
        return names.get(value, type(value).__name__)
    except TypeError:  # not hashable: no key
        return type(value).__name__
