"""Kernels that rewrite their weights, and calls that reach them beside their own entry: the facts behind invariant I7.

In: a kernel of the subject, as chosen. Out: evidence that it shuffles the weight after loading, and where the subject
calls a method of it that takes weights from the caller. Read from source: nothing is run. It must not say what a kernel
computes; a weight that is moved, padded or cast is not rewritten in this sense.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

from harness.model.record import Evidence

_LOADED = "process_weights_after_loading"
_OWN_ENTRIES = frozenset({_LOADED, "apply_weights", "apply", "is_supported", "can_implement"})
"""Methods that vLLM's layers call; they know the kernel's layout."""

_SHUFFLES = frozenset({"shuffle_weight", "shuffle_weights"})
"""AITER's functions that put a weight into the layout of its pre-shuffled kernels."""

_CALLERS = ("models", "model_executor/models", "model_executor/layers", "v1/attention")
"""Folders of vLLM whose code may hold a kernel and call it."""

_OF_OTHERS = frozenset({"nvidia", "xpu", "cpu", "tpu"})
"""Folders that belong to another platform than ROCm, the only one with kernels that shuffle."""


def layout_evidence(kernel: object) -> tuple[Evidence, ...]:
    """What is known of the layout that a kernel leaves its weight in; nothing where it leaves the plain one.

    Args:
        kernel: the object that the layer got, or its class where vLLM makes none yet.
    """
    kind = kernel if isinstance(kernel, type) else type(kernel)
    rewrites = next(_rewriting(kind, kernel), "")
    if not rewrites:
        return ()
    name = kind.__name__
    found = [Evidence(question=f"{name} rewrites its weight", answer=rewrites)]
    top = _top(kind)
    methods = [method for base in kind.__mro__ if _top(base) == top for method in vars(base) if _is_entry(base, method)]
    package = Path(str(sys.modules[top].__file__)).parent
    calls = [call for method in dict.fromkeys(methods) for call in _calls(method, package)]
    if calls:
        found.append(Evidence(question=f"{name} is called with the plain layout", answer=", ".join(calls)))
    return tuple(found)


def _top(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _rewriting(kind: type, kernel: object) -> Iterator[str]:
    """The methods that shuffle after loading, as ``Class.method``; a base counts where it is called or inherited."""
    for base in kind.__mro__:
        method = vars(base).get(_LOADED)
        if not inspect.isfunction(method):
            continue
        tree = _tree(method)
        if tree is None:
            return
        if _calls_any(_SHUFFLES, tree, kernel):
            yield f"{base.__name__}.{_LOADED}"
        if not _calls_any(frozenset({_LOADED}), tree, kernel):
            return


@functools.cache
def _tree(method: types.FunctionType) -> ast.Module | None:
    """The syntax tree of a method; None where its source is not to be had."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(method)))
    except (OSError, SyntaxError):
        return None


def _calls_any(names: frozenset[str], node: ast.AST, kernel: object) -> bool:
    """Whether code calls a function of one of these names, leaving out what a switch of the kernel keeps it from."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
        return True
    off = isinstance(node, ast.If) and _is_off(node.test, kernel)
    children = node.orelse if isinstance(node, ast.If) and off else ast.iter_child_nodes(node)
    return any(_calls_any(names, child, kernel) for child in children)


def _is_off(test: ast.expr, kernel: object) -> bool:
    """Whether a condition is an attribute of the kernel that is set to something false: ``self.use_bpreshuffle``."""
    return (
        isinstance(test, ast.Attribute)
        and isinstance(test.value, ast.Name)
        and test.value.id == "self"
        and not getattr(kernel, test.attr, True)
    )


def _is_entry(base: type, method: str) -> bool:
    """Whether a method is the class's own, public, and takes the weight from its caller."""
    function = vars(base)[method]
    if method.startswith("_") or method in _OWN_ENTRIES or not inspect.isfunction(function):
        return False
    return not getattr(function, "__isabstractmethod__", False) and len(inspect.signature(function).parameters) > 1


@functools.cache
def _calls(method: str, package: Path) -> tuple[str, ...]:
    """Places that call ``method`` of something other than themselves: ``vllm/models/x/amd/y.py:104``."""
    call = re.compile(rf"(?<!\bself)(?<!\bsuper\(\))\.{re.escape(method)}\(")
    found = []
    for folder in _CALLERS:
        for path in sorted((package / folder).rglob("*.py")):
            below = path.relative_to(package.parent)
            text = path.read_text(encoding="utf-8", errors="replace")
            if f".{method}(" not in text or _OF_OTHERS & set(below.parts):
                continue
            lines = enumerate(text.splitlines(), 1)
            found += [f"{below.as_posix()}:{number}" for number, line in lines if call.search(line)]
    return tuple(found)
