"""YAML text with positions. In: the bytes of a file. Out: a plain tree and the line and column of every value.

Must not: know what a matrix is. The YAML is a subset on purpose: one document, no anchors, aliases or tags (so that
no file can unfold into something larger than itself), text keys, and numbers that are plain decimal integers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from harness.model.errors import MatrixError, located

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_REPORTED = 25

Loc = tuple[str | int, ...]
"""Where a value is in the tree: ``("cells", 0, "targets", 2)``."""

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(
    r"[-+]?(\.?[0-9][0-9_]*(\.[0-9]*)?([eE][-+]?[0-9]+)?|0[xo][0-9a-fA-F_]+|\.inf|\.Inf|\.INF)|\.nan|\.NaN"
)
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_PARSER_FAULTS = (
    YAMLError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
# The parser answers some malformed text with bare exceptions of its own making (a ValueError for an escape beyond
# Unicode, an AttributeError for a broken directive); all of them are about the text.


@dataclass(frozen=True, order=True)
class Mark:
    """A place in the file, both counted from 1."""

    line: int
    column: int


START = Mark(1, 1)


class Problems:
    """The problems found so far in one file, so that they can be reported together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[tuple[Mark, str], None] = {}

    def add(self, mark: Mark, what: str, *, got: object = None, expected: str | None = None, hint: str = "") -> None:
        """Note one problem; the arguments are those of ``harness.model.errors.located``.

        Raises:
            MatrixError: there are so many that more would not help.
        """
        if isinstance(got, str) and len(got) > 80:
            got = got[:77] + "..."
        where = f"{self._path}:{mark.line}:{mark.column}"
        self._found[(mark, located(where, what, got=got, expected=expected, hint=hint))] = None
        if len(self._found) >= MAX_REPORTED:
            raise self.error()

    def error(self) -> MatrixError:
        """What was found, in the order of the file."""
        lines = [text for _, text in sorted(self._found)]
        if len(lines) >= MAX_REPORTED:
            lines.append(f"{self._path}: there may be more; reading stopped at {MAX_REPORTED} problems.")
        return MatrixError("\n".join(lines))

    def check(self) -> None:
        """Stop here if anything was found.

        Raises:
            MatrixError: at least one problem was added.
        """
        if self._found:
            raise self.error()


@dataclass(frozen=True)
class Source:
    """A file that was read: its plain tree of dict, list, str, int, bool and None, and where each value stands."""

    path: Path
    digest: str
    """blake2b of the file's bytes."""
    tree: Any
    _values: dict[Loc, Mark] = field(repr=False)
    _keys: dict[Loc, Mark] = field(repr=False)

    def mark(self, loc: Loc, *, key: bool = False) -> Mark:
        """The place of the value at ``loc`` (of its key if ``key``), or of the nearest container in the file."""
        if key and loc in self._keys:
            return self._keys[loc]
        while loc and loc not in self._values:
            loc = loc[:-1]
        return self._values.get(loc, START)

    def where(self, loc: Loc) -> str:
        """``file:line:column`` of the value at ``loc``, with the file's name alone: records go to other machines."""
        mark = self.mark(loc)
        return f"{self.path.name}:{mark.line}:{mark.column}"


def read(path: Path) -> Source:
    """Read and parse one file.

    Raises:
        MatrixError: the file cannot be read, is empty, too large, not UTF-8, or not YAML of the subset.
    """
    try:
        with path.open("rb") as stream:
            body = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise MatrixError(located(str(path), "cannot be read", got=str(error))) from error
    problems = Problems(path)
    text = _decode(body, problems)
    problems.check()
    builder = _Builder(problems)
    for event in _events(text, problems):
        builder.take(event)
        if builder.depth > MAX_DEPTH:
            break
    problems.check()
    if builder.tree is None:
        problems.add(START, "the file is empty", expected="a mapping")
    problems.check()
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    return Source(path, digest, builder.tree, builder.values, builder.keys)


def _decode(body: bytes, problems: Problems) -> str:
    if len(body) > MAX_BYTES:
        problems.add(START, "the file is too large", expected=f"at most {MAX_BYTES} bytes")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        before = body[: error.start]
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        problems.add(Mark(before.count(b"\n") + 1, column), "not UTF-8", got=f"byte 0x{body[error.start]:02x}")
        return ""


def _events(text: str, problems: Problems) -> Iterator[events.Event]:
    """The parser's events; a fault of the text becomes a problem, and ends them."""
    try:
        yield from YAML(typ="safe", pure=True).parse(StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(part for part in (error.context, error.problem) if part)
        hint = "Indent with blanks, not tabs." if "\\t" in words else ""
        problems.add(_mark(mark) if mark else START, "not YAML", got=words, hint=hint)
    except _PARSER_FAULTS as error:
        problems.add(START, "not YAML", got=f"{type(error).__name__}: {' '.join(str(error).split())}")


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


@dataclass
class _Frame:
    """A mapping or list that is still open."""

    node: dict[str, Any] | list[Any]
    loc: Loc
    key: str | None = None
    """The key whose value comes next, if one was read."""


class _Builder:
    """Builds the tree from events, without recursion."""

    def __init__(self, problems: Problems) -> None:
        self.tree: Any = None
        self.values: dict[Loc, Mark] = {}
        self.keys: dict[Loc, Mark] = {}
        self._problems = problems
        self._open: list[_Frame] = []
        self._documents = 0

    @property
    def depth(self) -> int:
        return len(self._open)

    def take(self, event: events.Event) -> None:
        """Add one event."""
        mark = _mark(event.start_mark)
        if isinstance(event, events.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._problems.add(mark, "a second document", expected="one document")
        elif isinstance(event, events.NodeEvent) and self._documents == 1:
            self._refuse(event, mark)
            if isinstance(event, events.MappingStartEvent):
                self._enter({}, mark)
            elif isinstance(event, events.SequenceStartEvent):
                self._enter([], mark)
            else:
                self._scalar(event, mark)
        elif isinstance(event, events.CollectionEndEvent) and self._documents == 1:
            self._open.pop()

    def _refuse(self, event: Any, mark: Mark) -> None:
        if isinstance(event, events.AliasEvent) or event.anchor is not None:
            self._problems.add(mark, "anchors and aliases are not allowed", got=f"{event.anchor}", hint="Write it out.")
        elif event.ctag is not None:
            self._problems.add(mark, "tags are not allowed", got=str(event.ctag), hint="Leave the tag out.")

    def _enter(self, node: dict[str, Any] | list[Any], mark: Mark) -> None:
        loc = self._place(node, mark)
        self._open.append(_Frame(node, loc))
        if self.depth > MAX_DEPTH:
            self._problems.add(mark, "nested too deeply", expected=f"at most {MAX_DEPTH} levels")

    def _scalar(self, event: Any, mark: Mark) -> None:
        frame = self._open[-1] if self._open else None
        text = getattr(event, "value", None)
        if frame is not None and isinstance(frame.node, dict) and frame.key is None and isinstance(text, str):
            self._key(frame, text, mark)
            return
        plain = not getattr(event, "style", None)
        self._place(self._value(text, mark) if plain and text is not None else text, mark)

    def _key(self, frame: _Frame, text: str, mark: Mark) -> None:
        loc = (*frame.loc, text)
        first = self.keys.get(loc)
        if first is not None:
            self._problems.add(
                mark, "duplicate key", got=text, hint=f"It is already at line {first.line}, column {first.column}."
            )
            text = f"{text}\0{mark.line}:{mark.column}"  # kept apart, so that what it holds is no duplicate as well
        self.keys.setdefault(loc, mark)
        frame.key = text

    def _value(self, text: str, mark: Mark) -> str | int | bool | None:
        if text in _NULLS:
            return None
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            self._problems.add(
                mark, "a number of this form", got=text, expected="a whole decimal number, or text in quotes"
            )
        return text

    def _place(self, value: Any, mark: Mark) -> Loc:
        """Put a value where the next one belongs."""
        if not self._open:
            self.tree, self.values[()] = value, mark
            return ()
        frame = self._open[-1]
        if isinstance(frame.node, list):
            loc: Loc = (*frame.loc, len(frame.node))
            frame.node.append(value)
        elif frame.key is None:
            self._problems.add(mark, "a key that is not text", expected="a plain word")
            frame.key, loc = "", (*frame.loc, "")
        else:
            loc = (*frame.loc, frame.key)
            frame.node.setdefault(frame.key, value)
            frame.key = None
        self.values.setdefault(loc, mark)
        return loc
