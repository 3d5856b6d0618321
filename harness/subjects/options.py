"""The words of the options that name a subject, parsed.

In: words as typed. Out: plain dictionaries and (kind, argument) pairs. Must not touch the file system or the network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from harness.model.errors import UsageError, located, nearest

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_kind(option: str, spec: str, kinds: Mapping[str, str]) -> tuple[str, str]:
    """Split a spec such as ``path:DIR`` into its kind and its argument.

    Args:
        option: the option's name, for the error message.
        spec: the word as typed.
        kinds: kind -> what its argument is called (``DIR``), or ``""`` for a kind that takes none.

    Returns:
        (kind, argument); the argument is empty exactly for the kinds that take none.

    Raises:
        UsageError: unknown kind, missing argument, or an argument where none is taken.
    """
    kind, colon, argument = spec.partition(":")
    forms = ", ".join(f"{name}:{word}" if word else name for name, word in kinds.items())
    if kind not in kinds:
        hint = nearest(kind, kinds)
        raise UsageError(located(option, "unknown kind", got=spec, expected=f"one of {forms}", hint=hint))
    word = kinds[kind]
    if word and not argument:
        raise UsageError(located(option, f"{kind} needs an argument", got=spec, expected=f"{kind}:{word}"))
    if colon and not word:
        raise UsageError(located(option, f"{kind} takes no argument", got=spec, expected=kind))
    return kind, argument


def parse_env(words: Sequence[str]) -> dict[str, str]:
    """Environment variables of ``--env K=V``, repeated.

    Raises:
        UsageError: a word without ``=``, an empty or invalid name, or one name given two values.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(located("--env", "not a variable with a value", got=word, expected="NAME=VALUE"))
        if found.setdefault(name, value) != value:
            what = f"{name} is given twice with different values"
            raise UsageError(located("--env", what, got=f"{found[name]} and {value}", expected="one value"))
    return found


def parse_packages(word: str, known: Collection[str]) -> dict[str, bool]:
    """Optional packages of ``--packages +flash_attn,-flashinfer``: name -> taken as present.

    Args:
        word: the option's value; empty for none.
        known: the packages that decide routing.

    Raises:
        UsageError: a name without a sign, an unknown name, or one name with both signs.
    """
    found: dict[str, bool] = {}
    for item in word.split(",") if word else ():
        sign, name = item[:1], item[1:]
        if sign not in ("+", "-"):
            raise UsageError(located("--packages", "a package needs a sign", got=item, expected="+NAME or -NAME"))
        if name not in known:
            raise UsageError(located("--packages", "unknown package", got=name, hint=nearest(name, known)))
        if found.setdefault(name, sign == "+") != (sign == "+"):
            raise UsageError(located("--packages", f"{name} is both present and absent", got=word, expected="one sign"))
    return found
