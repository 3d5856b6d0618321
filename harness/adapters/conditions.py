"""What an expression in the subject's source is worth on this platform, as far as that can be said without running it.

In: a function, what is known of its arguments, and an expression. Out: a known value, or why there is none. What only
asks vLLM's platform, its environment or ``hasattr(torch.ops...)`` is asked for real; nothing is imported, no gate of
AITER is asked, and no other function is called.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

_VARIABLES = "vllm.envs"
"""The module whose attributes are environment variables, read when they are asked for."""


class Vague(Enum):
    """What an expression is worth where its value is not known."""

    DATA = "data"
    """Made of arguments: any value may come."""
    UNKNOWN = "unknown"
    """State of an object, or the answer of a function that is not asked."""
    SELF = "self"


@dataclass(frozen=True)
class Known:
    """A value that is known."""

    value: Any


Value = Known | Vague


class Scope:
    """The names of one function, and what they are worth so far."""

    def __init__(self, function: types.FunctionType, values: dict[str, Value], owner: type | None) -> None:
        self.function = function
        self.values = values
        self.owner = owner

    def value(self, node: ast.expr) -> Value:
        """What an expression is worth."""
        if isinstance(node, ast.Constant):
            return Known(node.value)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.value(node.operand)
            return Known(not inner.value) if isinstance(inner, Known) else inner
        if isinstance(node, ast.BoolOp):
            return _either(isinstance(node.op, ast.And), [self.value(each) for each in node.values])
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.Call):
            return self._answer(node)
        return _mixed([self.value(each) for each in expressions(node)])

    def _name(self, name: str) -> Value:
        if name in self.values:
            return self.values[name]
        if name in self.function.__globals__:
            return Known(self.function.__globals__[name])
        return Known(hasattr) if name == "hasattr" else Vague.DATA

    def _attribute(self, node: ast.Attribute) -> Value:
        base = self.value(node.value)
        if base is Vague.SELF and self.owner is not None:
            function = bare(inspect.getattr_static(self.owner, node.attr, None))
            return Known(function) if function is not None else Vague.UNKNOWN
        return _member(base.value, node.attr) if isinstance(base, Known) else base

    def _compare(self, node: ast.Compare) -> Value:
        sides = [self.value(each) for each in (node.left, *node.comparators)]
        known = [side.value for side in sides if isinstance(side, Known)]
        if len(sides) != 2 or len(known) != 2:
            return _mixed(sides)
        try:
            return Known(bool(_COMPARISONS[type(node.ops[0])](*known)))
        except (KeyError, TypeError, ValueError):
            return Vague.UNKNOWN

    def _answer(self, node: ast.Call) -> Value:
        callee = self.value(node.func)
        arguments = [self.value(each) for each in node.args]
        if isinstance(callee, Known) and callee.value is hasattr:
            return _has(node)
        if not isinstance(callee, Known):
            return _mixed([callee, *arguments])
        known = [each.value for each in arguments if isinstance(each, Known)]
        if not is_question(callee) or node.keywords or len(known) != len(arguments):
            module = getattr(callee.value, "__module__", None) or ""
            return Vague.UNKNOWN if module.startswith(("vllm", "aiter")) else _mixed([Vague.DATA, *arguments])
        try:
            return Known(callee.value(*known))
        except Exception:  # a question that this platform cannot answer decides nothing
            return Vague.UNKNOWN

    def bring_in(self, statement: ast.ImportFrom) -> None:
        """Names that a function imports, where their module is imported already."""
        package = str(self.function.__globals__.get("__package__") or "").split(".")
        base = package[: len(package) - statement.level + 1] if statement.level else []
        module = sys.modules.get(".".join([*base, *([statement.module] if statement.module else [])]))
        for alias in statement.names:
            self.values[alias.asname or alias.name] = _member(module, alias.name)

    def assign(self, statement: ast.Assign | ast.AnnAssign, value: Value) -> None:
        """Give the names that a statement assigns to what they are worth from here on."""
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    vague = value if not isinstance(value, Known) or node is target else Vague.UNKNOWN
                    self.values[node.id] = vague


def bare(value: Any) -> Any:
    """The Python function of the subject behind a method or wrapper; None for anything else."""
    if not callable(value) or isinstance(value, type):
        return None
    try:
        function = inspect.unwrap(getattr(value, "__func__", value))
    except ValueError:
        return None
    if not isinstance(function, types.FunctionType) or not (function.__module__ or "").startswith("vllm"):
        return None
    return function


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Lt: lambda left, right: left < right,
    ast.LtE: lambda left, right: left <= right,
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
}


def _either(every: bool, values: Sequence[Value]) -> Value:
    """``and`` (``every``) or ``or`` of values: one that decides does so whatever the others are."""
    if any(isinstance(value, Known) and bool(value.value) is not every for value in values):
        return Known(not every)
    return _mixed(values) if any(not isinstance(value, Known) for value in values) else Known(every)


def _mixed(values: Sequence[Value]) -> Value:
    """An expression made of these: data where all that is not known is data."""
    if any(value in (Vague.UNKNOWN, Vague.SELF) for value in values):
        return Vague.UNKNOWN
    return Vague.DATA if Vague.DATA in values else Vague.UNKNOWN


def _has(node: ast.Call) -> Value:
    """``hasattr(torch.ops, "_C")``, ``hasattr(torch.ops._C, "name")``: asked for real."""
    import torch

    owner, name = node.args[0], node.args[1]
    chain = ast.unparse(owner).split(".")
    if chain[:2] != ["torch", "ops"] or len(chain) > 3 or not isinstance(name, ast.Constant):
        return Vague.UNKNOWN
    return Known(hasattr(functools.reduce(getattr, chain[2:], torch.ops), str(name.value)))


def is_question(callee: Value) -> bool:
    """Whether a function only asks vLLM's platform what it is."""
    if not isinstance(callee, Known):
        return False
    name = str(getattr(callee.value, "__name__", ""))
    module = str(getattr(callee.value, "__module__", "") or "")
    asks = name.startswith(("on_", "is_", "has_device_capability", "get_cdna_version", "get_rdna_version", "supports_"))
    return module.startswith("vllm.platforms") and asks


def _member(owner: Any, name: str) -> Value:
    """An attribute of one of the subject's modules or classes, or of its platform; no module's own look-up is run."""
    module = owner.__name__ if isinstance(owner, types.ModuleType) else str(getattr(owner, "__module__", ""))
    if not module.startswith("vllm"):
        return Vague.UNKNOWN
    if isinstance(owner, types.ModuleType) and module != _VARIABLES:
        found = vars(owner).get(name, sys.modules.get(f"{module}.{name}", Vague.UNKNOWN))
    elif isinstance(owner, type) or module == _VARIABLES or module.startswith("vllm.platforms"):
        found = getattr(owner, name, Vague.UNKNOWN)
    else:
        found = Vague.UNKNOWN
    return found if isinstance(found, Vague) else Known(found)


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions directly below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword | ast.withitem):
            yield from expressions(child)
