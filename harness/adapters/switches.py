"""Environment variables of one cell, set while it is asked, where a worker of its own would be too dear.

In: a cell whose scheme has ``env: K=V K=V``. vLLM reads most variables when they are asked for; what
``rocm_aiter_ops`` keeps of them is read again by vLLM's own ``refresh_env_variables``. It must not be used for a
variable that vLLM reads only while it is imported: such a variable needs an environment profile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from harness.adapters.decision import find
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
    before = dict(os.environ)
    os.environ.update(variables)
    _refresh()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        _refresh()


def _refresh() -> None:
    operations = find("vllm._aiter_ops", "rocm_aiter_ops")
    if operations is not None:
        operations.refresh_env_variables()
