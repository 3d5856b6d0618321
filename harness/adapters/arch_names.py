"""GCN arch names: whether vLLM reads ``gfx942`` and ``gfx942:sramecc+:xnack-`` alike, as drivers report either.

In: a target. Out: ``same``, or every fact of ``vllm/platforms/rocm.py`` that differs. The module's own expressions are
evaluated again with the other name in ``_GCN_ARCH``; nothing of it is rewritten.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

from harness.adapters.decision import Decision, raised, unsupported
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence

SAME = "same"
_NAME = "_GCN_ARCH"
_FEATURES = ("", ":xnack-", ":xnack+", ":sramecc+:xnack-")
"""Suffixes of GCN arch names. Source: LLVM's AMDGPU user guide, target identifiers."""


def decide_arch_names(cell: Cell) -> Decision:
    """Compare what the module makes of each form of the target's name."""
    module = importlib.import_module("vllm.platforms.rocm")
    if not hasattr(module, _NAME):
        return unsupported(f"vllm.platforms.rocm.{_NAME}")
    real = getattr(module, _NAME)
    forms = [cell.target.gfx + features for features in _FEATURES]
    try:
        told = {form: dict(_facts(module, form)) for form in forms}
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    finally:
        setattr(module, _NAME, real)
    plain = told[forms[0]]
    asked = tuple(Evidence(question=f"facts of {form}", answer=", ".join(_true(told[form]))) for form in forms)
    differ = [
        f"{form}: {name} is {facts[name]}"
        for form, facts in told.items()
        for name in plain
        if facts[name] != plain[name]
    ]
    return Decision(Ended.ANSWERED, "; ".join(differ) or SAME, "_get_gcn_arch", evidence=asked)


def _facts(module: types.ModuleType, form: str) -> Iterator[tuple[str, str]]:
    """Constants that the module makes of the name, and the answers of platform methods that read it."""
    setattr(module, _NAME, form)
    tree = ast.parse(inspect.getsource(module))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _reads_name(node.value):
            yield node.targets[0].id, str(eval(compile(ast.Expression(node.value), "<fact>", "eval"), vars(module)))
    platform: Any = module.RocmPlatform
    for name, method in vars(platform).items():
        function = inspect.unwrap(getattr(method, "__func__", method))
        code = getattr(function, "__code__", None)
        if code is not None and _NAME in code.co_names and list(inspect.signature(function).parameters) == ["cls"]:
            yield name, str(function(platform))


def _reads_name(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == _NAME for inner in ast.walk(node))


def _true(facts: dict[str, str]) -> list[str]:
    return [name if value == "True" else f"{name}={value}" for name, value in facts.items() if value != "False"]
