"""Environment switches: what one variable of vLLM moves, its default, and whether it holds its own gate.

In: a cell of surface ``switch``, whose name is the question: ``VARIABLE`` (what each of ``values`` changes against the
profile of the cell), ``ck.VARIABLE`` (the same of the gates of AITER's CK kernels alone), ``default.VARIABLE`` (what
vLLM reads where it is not set), or ``on.VARIABLE`` and ``off.VARIABLE`` (the answer of ``gate`` then). Watched are the
gates of ``rocm_aiter_ops`` and what the platform makes of a configuration. Gates that look into the installed AITER
(``..._available``) tell of the package and not of the switch: they are surface ``aiter_gate``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from harness.adapters.deciding import decisions_of_class, decisions_of_module
from harness.adapters.decision import Decision, Missing, answered, find
from harness.adapters.engine_config import configured, shown
from harness.adapters.posing import without_aiter
from harness.adapters.switches import turned
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence

_READINGS = ("get_fused_moe_situv2_activation", "get_moe_dispatch_policy")
"""Readings of ``rocm_aiter_ops`` that are no yes or no."""

_DECIDED = ("compilation_config.custom_ops", "kernel_config.ir_op_priority")
"""What the platform decides of a configuration by AITER's switches."""


def decide_switch(cell: Cell) -> Decision:
    """Ask what one variable does."""
    if cell.kernel.family == "functions":
        return answered(lambda: _decisions(cell.kernel.name))
    ask, _, variable = cell.kernel.name.rpartition(".")

    def known() -> Decision:
        if variable not in find("vllm.envs", "environment_variables"):
            raise Missing(f"variable {variable}")
        return _ASKS[ask](cell, variable)

    return answered(known)


def _decisions(part: str) -> Decision:
    """What AITER's gates answer under each of their switches, or the other deciding functions of their module."""
    operations = _operations()
    module = sys.modules[operations.__module__]
    asked = decisions_of_class(operations, {}, own=True) if part == "gates" else decisions_of_module(module)
    with without_aiter((module,)):
        line = "; ".join(f"{name} [{answers}]" for name, answers in asked)
    return Decision(Ended.ANSWERED, line, module.__name__)


def _moves(cell: Cell, variable: str) -> Decision:
    """``0: is_mha_enabled=False; 1: (none)``."""
    watched = _ck_gates if cell.kernel.name.startswith("ck.") else _everything
    before = watched()
    moved: dict[str, str] = {}
    evidence: list[Evidence] = []
    for value in str(cell.kernel.scheme.get("values", "0 1")).split():
        with turned({variable: value}):
            after = watched()
        changes = {name: answer for name, answer in after.items() if answer != before.get(name)}
        moved[value] = ", ".join(f"{name}={answer}" for name, answer in changes.items()) or "(none)"
        evidence += [
            Evidence(question=f"{name} with {variable}={value}", answer=f"{answer}, before {before.get(name)}")
            for name, answer in changes.items()
        ]
    chosen = "; ".join(f"{value}: {changes}" for value, changes in moved.items())
    return Decision(Ended.ANSWERED, chosen, f"vllm.envs.{variable}", evidence=tuple(evidence))


def _default(cell: Cell, variable: str) -> Decision:
    with turned({variable: None}):
        value = getattr(find("vllm", "envs"), variable)
    return Decision(Ended.ANSWERED, shown(value), f"vllm.envs.{variable}")


def _gate(cell: Cell, variable: str) -> Decision:
    name = str(cell.kernel.scheme["gate"])
    value = str(cell.kernel.scheme.get("value", "1" if cell.kernel.name.startswith("on.") else "0"))
    if not hasattr(_operations(), name):
        raise Missing(f"gate rocm_aiter_ops.{name}")
    with turned({variable: value}):
        answer = bool(getattr(_operations(), name)())
    asked = Evidence(question=f"{name}() with {variable}={value}", answer=str(answer))
    return Decision(Ended.ANSWERED, str(answer), f"rocm_aiter_ops.{name}", evidence=(asked,))


_ASKS: Mapping[str, Callable[[Cell, str], Decision]] = {
    "": _moves,
    "ck": _moves,
    "default": _default,
    "on": _gate,
    "off": _gate,
}


def _everything() -> dict[str, str]:
    """Gates, readings, what the platform decides of a configuration, and its order of attention backends."""
    found = {name: shown(getattr(_operations(), name)()) for name in (*_gates(), *_readings())}
    config = configured("default")
    for path in _DECIDED:
        section, name = path.split(".")
        decided = getattr(getattr(config, section, None), name, None)
        found |= {} if decided is None else {name: shown(decided)}  # vllm<0.18: no IR operators
    ranked = find("vllm.platforms.rocm", "_get_backend_priorities")  # vllm<0.16: not a function
    for mla in (False, True) if ranked is not None else ():
        found["mla backends" if mla else "attention backends"] = shown(ranked(mla, False))
    return found


def _ck_gates() -> dict[str, str]:
    """The gates of AITER's CK and assembly kernels, which no RDNA target has; a gate that does not apply says None."""
    return {name: str(bool(getattr(_operations(), name)())) for name in _gates() if not name.startswith("is_rdna_")}


def _gates() -> list[str]:
    operations = _operations()
    names = [name for name in dir(operations) if name.startswith(("is_", "are_")) and not name.endswith("_available")]
    return [name for name in names if _needs_nothing(getattr(operations, name))]


def _readings() -> list[str]:
    return [name for name in _READINGS if hasattr(_operations(), name)]


def _needs_nothing(gate: Any) -> bool:
    """Whether a gate can be asked without arguments."""
    if not callable(gate):
        return False
    parameters = inspect.signature(gate).parameters.values()
    return all(one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


def _operations() -> Any:
    operations = find("vllm._aiter_ops", "rocm_aiter_ops")
    if operations is None:
        raise Missing("rocm_aiter_ops")
    return operations
