"""Single edits of routing code, found in its syntax tree.

In: the text of a Python file. Out: every edit that removes or turns one guard, allowlist entry, gate or priority in a
function that decides. Pure. It must not know what any function means: only its name and the shape of its code count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

DECIDES = re.compile(
    r"^_?(is|are|can|has|supports?|should|use|on|verify|validate|check|select|choose|dispatch|resolve)_"
    r"|^_?(get|init)_\w*(backend|priorit|kernel|capabilit|valid|support)|^_?(supports?|select|fallback)|_incompatib"
)
"""Names of functions that decide, by the conventions of the field."""

_ELSEWHERE = re.compile(r"cpu|cuda|cutlass|flashinfer|trtllm|_sm\d|xpu|kernel_options$", re.IGNORECASE)
"""Functions and constants for another platform alone, and the tile sizes of a kernel that was chosen already."""

_ORDERED = re.compile(r"priorit|possible|select|fallback|get_\w*(backend|kernel)|valid_backends", re.IGNORECASE)
"""Functions and constants in which the order of a list is a priority; elsewhere a list is a set."""

_LISTS = re.compile(
    r"KERNEL|BACKEND|PRIORIT|SUPPORTED|POSSIBLE|ALLOW|QUANT|ARCH|DTYPE|supported|priorit|backends|_gfx", re.ASCII
)
"""Names of constants that hold allowlists or priorities."""


@dataclass(frozen=True)
class Edit:
    """One edit: ``text[start:end]`` (in bytes of UTF-8) becomes ``replacement``."""

    kind: str
    symbol: str
    """Function or constant that it is in."""
    line: int
    start: int
    end: int
    replacement: str
    original: str

    def apply(self, text: bytes) -> bytes:
        """The file with the edit."""
        return text[: self.start] + self.replacement.encode() + text[self.end :]

    def parses(self, text: bytes) -> bool:
        """Whether the file is still Python with the edit."""
        try:
            ast.parse(self.apply(text))
        except SyntaxError:
            return False
        return True


def edits(text: str) -> Iterator[Edit]:
    """Every edit of the file; ask each that is used whether it still ``parses``."""
    source = _Source(text)
    for symbol, node, deciding in _scopes(ast.parse(text), ""):
        if _ELSEWHERE.search(symbol):
            continue
        if deciding:
            yield from _of_function(source, symbol, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _LISTS.search(symbol):
            yield from _of_collections(source, symbol, node)


class _Source:
    """Byte offsets of syntax nodes."""

    def __init__(self, text: str) -> None:
        self.bytes = text.encode()
        self._starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end of a node, in bytes."""
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def edit(self, kind: str, symbol: str, node: ast.AST, replacement: str) -> Iterator[Edit]:
        """The edit that puts ``replacement`` where ``node`` stands, if the file still parses."""
        start, end = self.span(node)
        original = self.bytes[start:end].decode()
        yield Edit(kind, symbol, node.lineno, start, end, replacement, original)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """The source of a node."""
        start, end = self.span(node)
        return self.bytes[start:end].decode()


def _scopes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST, bool]]:
    """(qualified name, node, whether it is a function that decides) of functions and named constants."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child, bool(DECIDES.search(child.name))
        elif isinstance(child, ast.ClassDef):
            yield from _scopes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            yield prefix + child.targets[0].id, child, False
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and child.value is not None:
            yield prefix + child.target.id, child, False


def _of_function(source: _Source, symbol: str, function: ast.AST) -> Iterator[Edit]:
    for decorator in getattr(function, "decorator_list", []):
        if source.text(decorator).startswith("if_"):
            yield from source.edit("drop_gate", symbol, decorator, "(lambda function: function)")
    for node in ast.walk(function):
        if isinstance(node, ast.If):
            yield from _of_if(source, symbol, node)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.BoolOp) and isinstance(node.value.op, ast.And):
            for index in range(len(node.value.values)):
                kept = [source.text(value) for at, value in enumerate(node.value.values) if at != index]
                yield from source.edit("drop_condition", symbol, node.value, f"({' and '.join(kept)})")
    yield from _of_collections(source, symbol, function)


def _of_if(source: _Source, symbol: str, node: ast.If) -> Iterator[Edit]:
    last = node.body[-1]
    refuses = isinstance(last, ast.Raise | ast.Return | ast.Continue) and not node.orelse
    if refuses:
        yield from source.edit("drop_guard", symbol, node.test, f"False and ({source.text(node.test)})")
    else:
        yield from source.edit("turn_gate", symbol, node.test, f"not ({source.text(node.test)})")


def _of_collections(source: _Source, symbol: str, scope: ast.AST) -> Iterator[Edit]:
    compared = {id(node.comparators[0]) for node in ast.walk(scope) if isinstance(node, ast.Compare)}
    for node in ast.walk(scope):
        if id(node) not in compared:
            yield from _of_collection(source, symbol, node)


def _of_collection(source: _Source, symbol: str, node: ast.AST) -> Iterator[Edit]:
    """Lists and sets of names, and tuples that ``in`` looks into: an entry goes, or the first two change places."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        collection: ast.AST = node.comparators[0]
    else:
        collection = node
    kinds = (ast.Tuple, ast.List, ast.Set) if collection is not node else (ast.List, ast.Set)
    if not isinstance(collection, kinds) or len(collection.elts) < 2 or not all(map(_is_name, collection.elts)):
        return
    words = [source.text(entry) for entry in collection.elts]
    whole = source.text(collection)
    if whole[0] not in "[({":
        return
    for index in range(len(words)):
        kept = [word for at, word in enumerate(words) if at != index]
        yield from source.edit("drop_entry", symbol, collection, f"{whole[0]}{', '.join(kept)},{whole[-1]}")
    if isinstance(collection, ast.List) and collection is node and _ORDERED.search(symbol):
        swapped = ", ".join([words[1], words[0], *words[2:]])
        yield from source.edit("swap_priority", symbol, collection, f"[{swapped}]")


def _is_name(node: ast.AST) -> bool:
    """Whether an entry names something: a class, a constant, an attribute, text, or a tuple of such."""
    if isinstance(node, ast.Tuple):
        return all(map(_is_name, node.elts))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) or node.value is None
    return isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and not node.id.islower())
