"""Attention modules by themselves: what every class and deciding function in them answers, on the registry or not.

In: a cell of surface ``attention_backend`` with ``modules``, a pattern of modules below vLLM's attention backends, and
``of``: ``classes`` (each class of backends and of MLA prefills, asked every predicate over its whole domain) or
``functions`` (of the modules, and of their other classes). Out: one stable line. Classes are found and not named, so
that one of a later release is asked too. A module that needs a package of another platform is left out.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from harness.adapters.answers import shown
from harness.adapters.attention_requests import PREFILL, first_of, is_for_here
from harness.adapters.deciding import decisions_of_class, decisions_of_module, plainly
from harness.adapters.decision import Decision, Missing, answered, find
from harness.adapters.platform import caches_of
from harness.adapters.posing import without_aiter
from harness.model.cell import Cell
from harness.model.record import Ended

PACKAGE = "vllm.v1.attention.backends"

_BESIDE = ("vllm.v1.attention.backend", "vllm.v1.attention.selector")
"""Modules beside the package: the base of all backends, and their selector."""

_FACTS = ("supported_dtypes", "supported_kv_cache_dtypes", "supported_mla_dimensions")
"""Lists of a class that its predicates look into; their order is shown by no predicate."""


def decide_attention_modules(cell: Cell) -> Decision:
    """Ask what is in some modules of attention."""
    return answered(lambda: _decide(str(cell.kernel.scheme["of"]), str(cell.kernel.scheme["modules"])))


def _decide(part: str, pattern: str) -> Decision:
    modules = list(_modules(pattern))
    if not modules:
        raise Missing(f"attention module like {pattern!r}")
    parts = _classes(modules) if part == "classes" else _functions(modules)
    try:
        with without_aiter(modules):
            line = "; ".join(f"{name} [{answers}]" for name, answers in parts)
    finally:
        for clear in caches_of(tuple(modules)):
            clear()
    return Decision(Ended.ANSWERED, line or "(nothing decides)", f"{PACKAGE} {pattern}")


def _modules(pattern: str) -> Iterator[types.ModuleType]:
    """The modules below the package, and the selector, whose path the pattern matches, as far as they import."""
    package = find("vllm.v1.attention", "backends") or sys.modules.get(PACKAGE)
    if package is None:
        return
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.") if not found.ispkg]
    for name in (*_BESIDE, *sorted(names)):
        short = name.removeprefix(f"{PACKAGE}.").removeprefix("vllm.v1.attention.")
        if re.fullmatch(pattern, short) and is_for_here(name):
            try:
                yield importlib.import_module(name)
            except ImportError:  # another platform's, or a package that is not here
                continue


def _functions(modules: list[types.ModuleType]) -> Iterator[tuple[str, str]]:
    for module in modules:
        short = module.__name__.rpartition(".")[2]
        for name, line in decisions_of_module(module):
            yield f"{short}.{name}", line
        for cls in _own_classes(module):
            if not issubclass(cls, _families()):
                yield from ((f"{cls.__name__}.{name}", line) for name, line in decisions_of_class(cls, {}, own=False))


def _classes(modules: list[types.ModuleType]) -> Iterator[tuple[str, str]]:
    """Each class, as far as it answers otherwise than its base; the base itself in full."""
    plain = {base: _profile(base) for base in _families()}
    for module in modules:
        for cls in _own_classes(module):
            base = next((base for base in plain if issubclass(cls, base)), None)
            if base is not None:
                told = _profile(cls)
                differ = told.items() if cls is base else told.items() - plain[base].items()
                yield cls.__name__, "; ".join(f"{name}: {line}" for name, line in sorted(differ))


def _own_classes(module: types.ModuleType) -> Iterator[type]:
    yield from (v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__)


def _families() -> tuple[type, ...]:
    """The bases of backends and of MLA prefills."""
    backend = first_of(("vllm.v1.attention.backend", "vllm.attention.backends.abstract"), "AttentionBackend")
    prefill = find(f"{PREFILL}.base", "MLAPrefillBackend")
    return tuple(base for base in (backend, prefill) if base is not None)


def _profile(cls: Any) -> dict[str, str]:
    """Lists of a class, and what each of its predicates answers."""
    facts = {name: shown(plainly(getattr(cls, name)), {}) for name in _FACTS if hasattr(cls, name)}
    return {**facts, **dict(decisions_of_class(cls, _plain(cls), own=False))}


def _plain(cls: Any) -> Mapping[str, Any]:
    """A layer that a class of backends is made for, so that one thing moved shows by itself."""
    plain: dict[str, Any] = {}
    for parameter, facts in (("dtype", "supported_dtypes"), ("kv_cache_dtype", "supported_kv_cache_dtypes")):
        stored = getattr(cls, facts, None)
        if stored:
            plain[parameter] = stored[0]
    for parameter, predicate in (("use_mla", "is_mla"), ("use_sparse", "is_sparse")):
        if hasattr(cls, predicate):
            plain[parameter] = bool(getattr(cls, predicate)())
    if plain.get("use_mla"):
        plain["head_size"] = 576
    return plain
