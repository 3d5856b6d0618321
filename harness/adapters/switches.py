"""Environment variables of one cell, set while it is asked, where a worker of its own would be too dear.

In: a cell whose scheme has ``env: K=V K=V``. vLLM reads most variables when they are asked for; what
``rocm_aiter_ops`` keeps of them is read again by vLLM's own ``refresh_env_variables``. It must not be used for a
variable that vLLM reads only while it is imported: such a variable needs an environment profile.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.adapters.decision import find
from harness.adapters.gates import forget_gate_answers
from harness.model.cell import Cell


def variables_of(cell: Cell) -> dict[str, str]:
    """The variables that the cell's scheme sets."""
    words = str(cell.kernel.scheme.get("env", "")).split()
    return dict(word.split("=", 1) for word in words)


@contextmanager
def switched(cell: Cell) -> Iterator[None]:
    """Set the cell's own variables while the block runs, and put the environment back as it was."""
    variables = variables_of(cell)
    if not variables:
        yield
        return
    with turned(variables):
        yield


@contextmanager
def turned(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables (None: unset) while the block runs, let AITER's gates read them, and put all back as it was."""
    try:
        with kept_environment():
            for name, value in variables.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            _refresh()
            yield
    finally:
        _refresh()


@contextmanager
def kept_environment() -> Iterator[None]:
    """Put the environment back as it was when the block ends: vLLM sets variables of its own while it decides."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _refresh() -> None:
    operations = find("vllm._aiter_ops", "rocm_aiter_ops")
    if operations is not None:
        getattr(operations, "refresh_env_variables", lambda: _read_again(operations))()
        forget_gate_answers()


def _read_again(operations: Any) -> None:
    """Set the class's own variables anew. vllm<0.14: they are read once, while the class is made."""
    from vllm import envs

    body = ast.parse(textwrap.dedent(inspect.getsource(operations))).body[0]
    for node in body.body if isinstance(body, ast.ClassDef) else ():
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(value, ast.Attribute) and ast.unparse(value.value) == "envs":
            setattr(operations, ast.unparse(node.targets[0]), getattr(envs, value.attr))
