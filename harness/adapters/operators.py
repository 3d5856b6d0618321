"""Custom operators that a kernel needs, and whether the build of the target has them: the facts behind invariant I9.

In: a kernel class of the subject, or operator names. Out: each operator with ``declared`` or ``missing``. Only what can
be said is said: an operator of another package's namespace, or one behind a condition that cannot be decided, is never
called missing.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass

from harness.adapters.reachable import reached_by_methods
from harness.model.record import Evidence

_METHODS = ("process_weights_after_loading", "apply_weights", "apply")
"""Methods of a kernel or experts class that run on the device."""

_OF_THE_BUILD = frozenset({"_C", "_moe_C", "_rocm_C", "_C_cache_ops", "_C_custom_ar", "_C_cuda_utils"})
"""Namespaces that the subject's own build fills, and nobody else but on XPU."""

_OF_AITER = "vllm::rocm_aiter_"
"""How vLLM names the operators that it registers for AITER, all at once and only where AITER serves the target."""


@dataclass(frozen=True)
class Operator:
    """One operator and whether the process has it."""

    name: str
    """``namespace::name``"""
    declared: bool

    @property
    def evidence(self) -> Evidence:
        """The fact as a record holds it."""
        return Evidence(question=f"operator {self.name}", answer="declared" if self.declared else "missing")


def operators_of(kind: type) -> tuple[Operator, ...]:
    """The operators that a kernel class reaches on this platform, by name.

    One that is not there is told only where some call surely gets to it; one that is there, wherever it is reached.
    """
    return _operators_of(kind, tuple(sorted(item for item in os.environ.items() if item[0].startswith("VLLM_"))))


@functools.lru_cache(maxsize=512)
def _operators_of(kind: type, _environment: tuple[tuple[str, str], ...]) -> tuple[Operator, ...]:
    reached = reached_by_methods(kind, _METHODS)
    return tuple(one for one in presence(sorted(reached)) if one.declared or reached[one.name])


def presence(names: Iterable[str]) -> tuple[Operator, ...]:
    """Whether the process has each operator; those of which nothing can be said are left out."""
    asked = tuple(names)
    if not asked:
        return ()  # a kernel without operators needs no platform to say so
    import torch
    from vllm.platforms import current_platform

    compiled = current_platform.is_cuda_alike() or current_platform.is_cpu()
    found = []
    for name in asked:
        namespace, _, bare = name.partition("::")
        declared = hasattr(getattr(torch.ops, namespace), bare)
        decided = (compiled and namespace in _OF_THE_BUILD) or name.startswith(_OF_AITER)
        if decided or (declared and namespace == "vllm"):
            found.append(Operator(name, declared))
    return tuple(found)
