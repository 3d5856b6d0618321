"""Which custom operators a function of the subject can reach, read from its source without running it.

In: a function, or a class and the names of its methods. Out: operator names (``_rocm_C::wvSplitK``), each with whether
it is sure that some call on this platform gets there. A condition on data (shapes, dtypes, an absent bias) goes either
way; one that vLLM's platform, its environment or ``hasattr(torch.ops...)`` decides is asked for real; behind any other
one nothing is sure. Only vLLM's own functions are followed, nothing is imported, and no gate of AITER is asked.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.adapters.conditions import Known, Scope, Vague, Value, bare, expressions, is_question

_DEPTH = 10
"""Calls deep: deeper than any kernel of vLLM 0.20 to 0.33 wraps its operator."""


@dataclass
class Reached:
    """Operators by name, with whether it is sure that some call gets there."""

    operators: dict[str, bool] = field(default_factory=dict)
    seen: set[tuple[types.CodeType, bool]] = field(default_factory=set)

    def note(self, name: str, sure: bool) -> None:
        """Add one operator."""
        self.operators[name] = self.operators.get(name, False) or sure


def reached_by_methods(kind: type, names: Sequence[str]) -> Mapping[str, bool]:
    """The operators that methods of a class reach, by name; the value tells whether it is sure."""
    reached = Reached()
    for name in names:
        function = bare(getattr(kind, name, None))
        if function is not None:
            _read(function, _of_a_method(_any(function)), kind, True, 0, reached)
    return reached.operators


@functools.cache
def _tree(function: types.FunctionType) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return None
    found = tree.body[0] if tree.body else None
    return found if isinstance(found, ast.FunctionDef) else None


def _read(
    function: types.FunctionType,
    given: Mapping[str, Value],
    owner: type | None,
    sure: bool,
    depth: int,
    reached: Reached,
) -> None:
    """Read one function with what is known of its arguments."""
    tree = _tree(function)
    if tree is None or depth > _DEPTH or (function.__code__, sure) in reached.seen:
        return
    reached.seen.add((function.__code__, sure))
    names = [each.arg for each in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
    defaults = {
        name: Known(parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }
    values: dict[str, Value] = {name: given.get(name, defaults.get(name, Vague.DATA)) for name in names}
    _Reader(Scope(function, values, owner), depth, reached).block(tree.body, sure)


class _Reader:
    """Reads the body of one function."""

    def __init__(self, scope: Scope, depth: int, reached: Reached) -> None:
        self._scope = scope
        self._depth = depth
        self._reached = reached

    # ---- statements

    def block(self, statements: Sequence[ast.stmt], sure: bool) -> tuple[bool, bool]:
        """Read statements in order.

        Returns:
            Whether the flow certainly ends in them, and whether what follows is still sure.
        """
        for statement in statements:
            ends, sure = self._statement(statement, sure)
            if ends:
                return True, sure
        return False, sure

    def _statement(self, statement: ast.stmt, sure: bool) -> tuple[bool, bool]:
        if isinstance(statement, ast.If):
            return self._if(statement, sure)
        if isinstance(statement, ast.Try):
            return self._try(statement, sure)
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.Global):
            return False, sure
        if isinstance(statement, ast.ImportFrom):
            self._scope.bring_in(statement)
            return False, sure
        if isinstance(statement, ast.With | ast.For | ast.While):
            for child in expressions(statement):
                self._expression(child, sure)
            ends, after = self.block(statement.body, sure)
            return (ends, after) if isinstance(statement, ast.With) else (False, sure)
        for child in expressions(statement):
            self._expression(child, sure)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            value = self._scope.value(statement.value)
            self._scope.assign(statement, value)
            function = bare(value.value) if isinstance(value, Known) else None
            if function is not None and not isinstance(statement.value, ast.Call):  # kept to be called later
                _read(function, _any(function), None, sure, self._depth + 1, self._reached)
        return isinstance(statement, ast.Return | ast.Raise), sure

    def _if(self, statement: ast.If, sure: bool) -> tuple[bool, bool]:
        self._expression(statement.test, sure)
        truth = self._scope.value(statement.test)
        if isinstance(truth, Known):
            return self.block(statement.body if truth.value else statement.orelse, sure)
        inside = sure and truth is Vague.DATA
        before = dict(self._scope.values)
        first, _ = self.block(statement.body, inside)
        then, self._scope.values = self._scope.values, before
        second, _ = self.block(statement.orelse, inside)
        for name in {*then, *self._scope.values}:  # what the branches leave differently is no longer known
            if then.get(name) != self._scope.values.get(name):
                self._scope.values[name] = Vague.DATA if truth is Vague.DATA else Vague.UNKNOWN
        return first and second, inside if first or second else sure

    def _try(self, statement: ast.Try, sure: bool) -> tuple[bool, bool]:
        ends, after = self.block(statement.body, sure)
        others = [self.block(handler.body, False)[0] for handler in statement.handlers]
        self.block(statement.finalbody, sure)
        return ends and all(others), after and sure

    # ---- expressions: what they reach

    def _expression(self, node: ast.AST, sure: bool) -> None:
        operator = _operator(node)
        if operator is not None:
            self._operator(operator, sure)
            return
        if isinstance(node, ast.IfExp):
            truth = self._scope.value(node.test)
            self._expression(node.test, sure)
            branches = [node.body, node.orelse]
            if isinstance(truth, Known):
                branches = branches[:1] if truth.value else branches[1:]
            for branch in branches:
                self._expression(branch, sure and truth is not Vague.UNKNOWN)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.Call):
            self._call(node, sure)
        for child in ast.iter_child_nodes(node):
            self._expression(child, sure)

    def _operator(self, name: str, sure: bool) -> None:
        self._reached.note(name, sure)
        namespace, _, short = name.partition("::")
        if namespace != "vllm":
            return
        for candidate in (f"{short}_impl", f"_{short}_impl", short, f"_{short}"):  # how vLLM names what it registers
            function = bare(self._scope.function.__globals__.get(candidate))
            if function is not None:
                _read(function, _any(function), None, sure, self._depth + 1, self._reached)
                return

    def _call(self, node: ast.Call, sure: bool) -> None:
        callee = self._scope.value(node.func)
        function = bare(callee.value) if isinstance(callee, Known) else None
        if function is None or is_question(callee):
            return
        owner = self._scope.owner if _is_own(node.func, self._scope.values) else None
        given = self._given(node, function, bound=owner is not None)
        _read(function, given, owner, sure, self._depth + 1, self._reached)

    def _given(self, node: ast.Call, function: types.FunctionType, *, bound: bool) -> dict[str, Value]:
        """What a call gives to the parameters of a function, by name."""
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            given = _any(function)
        else:
            names = list(inspect.signature(function).parameters)
            names = names[1:] if bound and names[:1] in (["self"], ["cls"]) else names
            given = dict(zip(names, map(self._scope.value, node.args), strict=False))
            given |= {each.arg: self._scope.value(each.value) for each in node.keywords if each.arg}
        return _of_a_method(given) if bound else given


def _any(function: types.FunctionType) -> dict[str, Value]:
    """Every parameter may have any value, its default among them."""
    return dict.fromkeys(inspect.signature(function).parameters, Vague.DATA)


def _of_a_method(given: dict[str, Value]) -> dict[str, Value]:
    return given | {"self": Vague.SELF, "cls": Vague.SELF}


def _operator(node: ast.AST) -> str | None:
    """``namespace::name`` of ``torch.ops.namespace.name``, with an overload or without."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id != "torch" or len(parts) < 3 or parts[0] != "ops":
        return None
    return f"{parts[1]}::{parts[2]}"


def _is_own(node: ast.expr, values: Mapping[str, Value]) -> bool:
    return (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and values.get(node.value.id) is Vague.SELF
    )
