"""Code outside vLLM that already holds names of vLLM when a target is to be simulated: rebound, or refused.

In: the modules of this process. Out: for each name that a top-level import statement bound, what the same statement
binds under the target. A value computed from vLLM while a module was imported (a decorator, a base class, a constant)
cannot be computed again without running the module again, so it is reported and never guessed.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUBJECT = "vllm"
_PLATFORMS = "vllm.platforms"
_HARMLESS = frozenset({"init_logger"})
"""Functions of vLLM whose value answers the same under every target."""


@dataclass(frozen=True)
class Bound:
    """``name`` of a module, bound by ``from source import attribute`` or, without an attribute, ``import source``."""

    name: str
    source: str
    attribute: str | None


@dataclass(frozen=True)
class Baked:
    """A place that computed something from vLLM while its module was imported."""

    where: str
    """``file:line``, the file as Python knows it."""
    name: str


def holders(test: types.ModuleType) -> list[types.ModuleType]:
    """The module of a test, and the loaded modules that its import statements lead to: its helpers.

    vLLM, the standard library and installed packages are left out; none of these holds names of vLLM.
    """
    found = [test]
    for module in found:  # grows as it goes
        for name in _imported(parsed(module), module.__package__ or ""):
            other = sys.modules.get(name)
            if other is not None and other not in found and _is_user(other):
                found.append(other)
    return found


def conftests() -> list[types.ModuleType]:
    """The loaded conftest.py modules, whose fixtures a test may use without naming their module."""
    return [
        module for module in list(sys.modules.values()) if _is_user(module) and _file(module).endswith("conftest.py")
    ]


def bindings(tree: ast.Module) -> list[Bound]:
    """The names that import statements outside functions bind to something of vLLM."""
    found = []
    for node in _evaluated(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_subject(alias.name):
                    source = alias.name if alias.asname else SUBJECT
                    found.append(Bound(alias.asname or SUBJECT, source, None))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and _is_subject(node.module or ""):
            found += [Bound(alias.asname or alias.name, node.module or "", alias.name) for alias in node.names]
    return found


def baked(file: str, tree: ast.Module, *, strict: bool) -> list[Baked]:
    """Where the module computed something from vLLM when it was imported.

    Args:
        file: for the report.
        tree: the module's source, parsed.
        strict: report every use of a name of vLLM; otherwise only questions to its platform.
    """
    names = {
        bound.name
        for bound in bindings(tree)
        if bound.name not in _HARMLESS
        and (strict or bound.source.startswith(_PLATFORMS) or bound.attribute == "platforms")
    }
    uses = [node for node in _evaluated(tree) if isinstance(node, ast.Name) and node.id in names]
    return [Baked(f"{file}:{node.lineno}", node.id) for node in sorted(uses, key=lambda node: node.lineno)]


def value_of(bound: Bound) -> Any:
    """What the import statement binds now.

    Raises:
        ImportError: the subject under this target has no such module or name.
    """
    module = importlib.import_module(bound.source)
    if bound.attribute is None:
        return module
    try:
        return getattr(module, bound.attribute)
    except AttributeError:
        return importlib.import_module(f"{bound.source}.{bound.attribute}")


def parsed(module: types.ModuleType) -> ast.Module:
    """The module's source, parsed."""
    return ast.parse(Path(_file(module)).read_text(encoding="utf-8"))


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Names of modules that import statements outside functions may have loaded."""
    for node in _evaluated(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_user(module: types.ModuleType) -> bool:
    paths = sysconfig.get_paths()
    foreign = tuple(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    file = _file(module)
    return file.endswith(".py") and not _is_subject(module.__name__) and not file.startswith(foreign)


def _file(module: types.ModuleType) -> str:
    return getattr(module, "__file__", None) or ""


def _is_subject(name: str) -> bool:
    return name == SUBJECT or name.startswith(f"{SUBJECT}.")


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: no body of a function, no annotation."""
    skipped: tuple[str, ...] = ("annotation", "returns")
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        skipped += ("body",)
    for field, value in ast.iter_fields(node):
        if field in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from _evaluated(child)
