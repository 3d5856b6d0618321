"""The C preprocessor, as far as operator declarations need it: which lines of a file a build for one target keeps.

In: C++ text and macros. Out: the lines kept. It evaluates conditionals only: nothing is included, nothing expanded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b[ \t]*(.*?)[ \t]*(?://.*)?$")


def preprocess(text: str, macros: Mapping[str, bool]) -> str:
    """The lines that a compiler would keep. Only conditionals are evaluated.

    Args:
        text: C++ text.
        macros: name -> whether it is defined.
    """
    kept: list[str] = []
    stack: list[tuple[bool, bool]] = []  # (this branch is on, some branch was on already)
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        match = _DIRECTIVE.match(line)
        if match is None:
            if all(on for on, _ in stack):
                kept.append(line)
            continue
        word, condition = match.groups()
        if word == "endif":
            if stack:
                stack.pop()
        elif word in ("else", "elif"):
            _, done = stack.pop() if stack else (False, True)
            on = not done and (word == "else" or holds(condition, macros))
            stack.append((on, done or on))
        else:
            expression = {"ifdef": f"defined({condition})", "ifndef": f"!defined({condition})"}.get(word, condition)
            on = holds(expression, macros)
            stack.append((on, on))
    return "\n".join(kept)


def holds(expression: str, macros: Mapping[str, bool]) -> bool:
    """Value of a conditional made of macros, ``defined``, ``!``, ``&&`` and ``||``; other words count as false."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        enabled = name.startswith(("ENABLE_", "VLLM_ENABLE_")) and not macros["USE_ROCM"]
        return str(macros.get(name, enabled))

    expression = re.sub(r"//.*|/\*.*?\*/", "", expression)
    words = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?|\b([A-Za-z_]\w*)\b", value, expression)
    words = words.replace("&&", " and ").replace("||", " or ").replace("!", " not ")
    if not re.fullmatch(r"(?:\s|True|False|and|or|not|[()])*", words):
        return False  # arithmetic on toolkit versions: no operator that routing asks for hangs on one
    return bool(eval(words)) if words.strip() else False
