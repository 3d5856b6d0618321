"""The form of matrix.yaml. In: the plain tree of ``source.read``. Out: typed entries, words not yet looked up.

Must not: look names up or expand anything. Everything is strict: a number is no text and an unknown key is an error.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from harness.matrix.shapes import MAX_TP
from harness.matrix.source import Loc, Problems, Source
from harness.model.cell import Surface, Tier
from harness.model.errors import nearest
from harness.model.record import Frozen


def _words(value: object) -> object:
    """One word or a list of them, as a tuple."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise PydanticCustomError("words", "expected a word or a list of words")
    return tuple(words)


def _sizes(value: object) -> object:
    sizes = value if isinstance(value, list) else [value]
    if not sizes or not all(type(size) is int and 1 <= size <= MAX_TP for size in sizes):
        raise PydanticCustomError("sizes", f"expected a size from 1 to {MAX_TP}, or a list of them")
    if len(set(sizes)) < len(sizes):
        raise PydanticCustomError("sizes", "expected each size once")
    return tuple(sizes)


def _answers(value: object) -> object:
    answers = value if isinstance(value, list) else [value]
    if not answers or not all(isinstance(answer, (str, int)) for answer in answers):
        raise PydanticCustomError("answers", "expected an answer or a list of answers")
    return tuple(str(answer) for answer in answers)


def _family(value: object) -> object:
    """A list of names is short for a mapping of names to empty schemes."""
    if not isinstance(value, list):
        return value
    names = _words(value)
    assert isinstance(names, tuple)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise PydanticCustomError("twice", "expected each name once: " + ", ".join(twice))
    return dict.fromkeys(names)


def _scheme_value(value: object) -> object:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if isinstance(value, (str, int)):
        return value
    raise PydanticCustomError("scheme", "expected text, a whole number, true or false, or a list of words")


def _layer(value: object) -> object:
    return {"shape": value} if isinstance(value, str) else value


def _date(value: object) -> object:
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise PydanticCustomError("date", "expected a date as 2026-01-31") from None


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$", max_length=80)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Text = Annotated[str, StringConstraints(min_length=1)]
Link = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Answers = Annotated[tuple[str, ...], BeforeValidator(_answers)]
Sizes = Annotated[tuple[int, ...], BeforeValidator(_sizes)]
SurfaceName = Annotated[Surface, Field(strict=False)]
Scheme = dict[Name, Annotated[Any, BeforeValidator(_scheme_value)]]
Family = Annotated[dict[Name, Scheme | None], BeforeValidator(_family)]


class Entry(Frozen):
    """Base of every mapping of the file whose keys are fixed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class EnvironmentEntry(Entry):
    """An environment profile."""

    platforms: Words
    variables: dict[Variable, str] = Field(default={}, alias="set")


class LayerEntry(Entry):
    """One layer: its shape, and a source where it is not the model's."""

    shape: Text
    source: Text | None = None


class ModelEntry(Entry):
    """A model with its layers."""

    source: Text
    tp: Sizes
    kernels: Words
    layers: Annotated[dict[Name, Annotated[LayerEntry, BeforeValidator(_layer)]], Field(min_length=1)]


class CellsEntry(Entry):
    """A product of targets, environments, kernels and, on a surface with layers, models."""

    name: Text
    tier: Annotated[Tier, Field(strict=False)]
    surface: SurfaceName
    targets: Words
    environments: Words
    kernels: Words = ("all",)
    models: Words = ()


class Selection(Entry):
    """Which cells an entry is about; what is left out is no condition."""

    tier: Annotated[Tier | None, Field(strict=False)] = None
    surface: Annotated[Surface | None, Field(strict=False)] = None
    targets: Words = ()
    environments: Words = ()
    kernels: Words = ()
    models: Words = ()
    layers: Words = ()


class ExclusionEntry(Selection):
    """Cells that are left out of every product."""

    because: Text


class ExpectationEntry(Selection):
    """What the subject must answer, or never answer."""

    chosen: Answers = ()
    never: Answers = ()
    aiter: Literal["present", "absent"] | None = None
    because: Text
    source: Text


class KnownFailureEntry(Selection):
    """Cells that fail today, for a reason that has an owner and an end."""

    issue: Link
    owner: Text
    expires: Annotated[datetime.date, BeforeValidator(_date)]
    reason: Text


class ExceptionEntry(Selection):
    """Cells that may break an invariant, for a reason that has an owner and an end."""

    rule: Annotated[str, StringConstraints(pattern=r"^I([1-9]|1[0-6])$")]
    issue: Link
    owner: Text
    expires: Annotated[datetime.date, BeforeValidator(_date)]
    reason: Text


class MatrixFile(Entry):
    """The whole file."""

    version: Literal[1] = Field(alias="schema")
    targets: Words
    environments: Annotated[dict[Name, EnvironmentEntry], Field(min_length=1)]
    kernels: dict[SurfaceName, dict[Name, Family]]
    models: dict[Name, ModelEntry] = Field(default={})
    cells: Annotated[list[CellsEntry], Field(min_length=1)]
    exclusions: list[ExclusionEntry] = Field(default=[])
    expectations: list[ExpectationEntry] = Field(default=[])
    known_failures: list[KnownFailureEntry] = Field(default=[])
    exceptions: list[ExceptionEntry] = Field(default=[])


_SECTIONS: dict[str, type[Entry]] = {
    "environments": EnvironmentEntry,
    "models": ModelEntry,
    "cells": CellsEntry,
    "exclusions": ExclusionEntry,
    "expectations": ExpectationEntry,
    "known_failures": KnownFailureEntry,
    "exceptions": ExceptionEntry,
}


_EXPECTED = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "too_short": "at least {min_length}",
    "string_type": "text; put it in quotes",
    "string_too_short": "some text",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
}
"""Pydantic's kinds of faults, in the words of someone who edits the file."""


def validate(source: Source, problems: Problems) -> MatrixFile:
    """Give the tree its types.

    Raises:
        MatrixError: the tree does not have the form of a matrix; every fault is listed.
    """
    try:
        return MatrixFile.model_validate(source.tree)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            _report(fault, source, problems)
        raise problems.error() from None


def _report(fault: ErrorDetails, source: Source, problems: Problems) -> None:
    """Turn one of pydantic's faults into a problem with a place."""
    is_key = fault["loc"][-1:] == ("[key]",)
    loc = tuple(part for part in fault["loc"] if part != "[key]")
    last = str(loc[-1]) if loc else "the file"
    if fault["type"] == "extra_forbidden":
        problems.add(source.mark(loc, key=True), "unknown key", got=last, hint=nearest(last, _known_keys(loc)))
        return
    if fault["type"] == "missing":
        problems.add(source.mark(loc[:-1]), f"the key {last!r} is missing")
        return
    plain = fault["msg"].removeprefix("Input should be ").removeprefix("expected ")
    template = _EXPECTED.get(fault["type"])
    expected = template.format(**fault.get("ctx", {})) if template else plain
    hint = nearest(str(fault["input"]), re.findall(r"'([^']+)'", plain)) if "expected" in fault.get("ctx", {}) else ""
    what = "wrong name" if is_key else f"wrong value for {last!r}"
    problems.add(source.mark(loc, key=is_key), what, got=_shown(fault["input"]), expected=expected, hint=hint)


def _shown(value: object) -> object:
    """A value as a message names it."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else value


def _known_keys(loc: Loc) -> set[str]:
    """The keys that are allowed beside the one at ``loc``."""
    entry: type[Entry] = _SECTIONS.get(str(loc[0]), MatrixFile) if len(loc) > 1 else MatrixFile
    if "layers" in loc[:-1]:
        entry = LayerEntry
    return {info.alias or name for name, info in entry.model_fields.items()}
