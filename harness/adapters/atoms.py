"""What a function of the subject reads that has few answers, and what may stand in place of each.

In: a function. Out: its atoms: constants of its module that are yes or no, variables of ``vllm.envs``, predicates of
the platform, AITER's gates, and helpers that say yes or no. Nothing is an atom that the function does not read by
itself. ``harness/adapters/posing.py`` puts the answers in place.
"""

from __future__ import annotations

import dis
import functools
import importlib.machinery
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.adapters.posed_configs import posed_configs

PREDICATE = re.compile(
    r"_?(is|are|can|has|supports?|should|use|uses|on)_|\w+_(supported|available|enabled|importable)$"
)
"""Names of functions that answer yes or no."""

_AITER = "aiter"
_ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201", "gfx1250")
_WORDS = ("auto", "0", "1", "asm", "gluon", "a8w4", "LBNHC", "HND", "none")
"""What a variable of ``vllm.envs`` that holds a word may hold; a function takes those that it does not know as such."""


@dataclass(frozen=True)
class Atom:
    """One thing that a function reads: where it stands, and what may stand there, by a word for each."""

    name: str
    home: Any
    values: tuple[tuple[str, Any], ...]


def atoms_of(function: Callable[..., Any], owner: type | None = None) -> tuple[Atom, ...]:
    """The atoms of a function, in the order of its code.

    Args:
        function: a function or method of the subject, with any decorators.
        owner: the class whose own members are posed too; None where they are asked for themselves.
    """
    found: dict[tuple[int, str], Atom] = {}
    for layer in _layers(function):
        for atom in _atoms_of_layer(layer, owner, set()):
            found.setdefault((id(atom.home), atom.name), atom)
    return tuple(found.values())


def is_cached(value: Any) -> bool:
    """Whether ``functools`` keeps a function's answers; a stand-in for a package has any name that one asks for."""
    return inspect.getattr_static(value, "cache_clear", None) is not None


def looks_into_aiter(function: Callable[..., Any]) -> bool:
    """Whether the function imports AITER itself: only AITER knows the answer."""
    modules = (module for layer in _layers(function) for module, _ in _imports(layer.__code__))
    return any(module.partition(".")[0] == _AITER for module in modules)


# ---- what a function reads


def _layers(function: Any) -> Iterator[types.FunctionType]:
    """The function and what its decorators wrap, as far as they are Python."""
    while function is not None:
        if isinstance(function, types.FunctionType):
            yield function
        function = getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def _imports(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """(module, name) of each import inside the function; the name is empty for a whole module."""
    module = ""
    for inner in _codes(code):
        for step in dis.get_instructions(inner):
            if step.opname == "IMPORT_NAME":
                module = str(step.argval)
                yield module, ""
            elif step.opname == "IMPORT_FROM":
                yield module, str(step.argval)


def _atoms_of_layer(function: types.FunctionType, owner: type | None, seen: set[types.CodeType]) -> Iterator[Atom]:
    if function.__code__ in seen:
        return
    seen.add(function.__code__)
    names = list(dict.fromkeys(name for code in _codes(function.__code__) for name in code.co_names))
    read: list[tuple[Any, str, Any]] = []
    home = sys.modules.get(function.__module__)
    read += [(home, name, vars(home)[name]) for name in names if home is not None and name in vars(home)]
    for module, name in _imports(function.__code__):
        found = sys.modules.get(module)
        if name and found is not None and hasattr(found, name):
            read.append((found, name, getattr(found, name)))
    yield from _variables(names)
    for where, name, value in read:
        yield from _of_value(where, name, value, names)
        if isinstance(value, types.FunctionType) and where is home and _answers_by_itself(value):
            yield from _atoms_of_layer(value, None, seen)
    if owner is not None:
        yield from (atom for name in names for atom in _member(owner, name))


def _answers_by_itself(function: types.FunctionType) -> bool:
    """A helper without arguments that is not posed itself: what it reads is what the function reads."""
    return not _needed(function) and not PREDICATE.match(function.__name__) and function.__name__ not in _poses()


def _variables(names: Sequence[str]) -> Iterator[Atom]:
    """Variables of ``vllm.envs``, as the module gives them: not the process's own."""
    envs = sys.modules.get("vllm.envs")
    known = getattr(envs, "environment_variables", {})
    for name in names:
        if name.startswith("VLLM_") and name in known:
            value = getattr(envs, name)
            if isinstance(value, bool):
                yield _flag(envs, name)
            elif value is None or isinstance(value, str):
                words = (value, *(word for word in _WORDS if word != value))
                yield Atom(name, envs, tuple((str(word), word) for word in words))


def _of_value(home: Any, name: str, value: Any, names: Sequence[str]) -> Iterator[Atom]:
    if name in _poses():
        yield Atom(name, home, _poses()[name])
    elif isinstance(value, bool):
        if name.isupper() and name != "TYPE_CHECKING":
            yield _flag(home, name)
    elif name == "_GCN_ARCH":
        yield Atom(name, home, tuple((arch, arch) for arch in _ARCHES))
    elif isinstance(value, type):
        if value.__module__.startswith("vllm."):
            yield from (atom for member in names for atom in _gate(value, member))
    elif name == "current_platform":
        yield from (atom for member in names for atom in _of_platform(value, member))
    elif callable(value) and _says_yes_or_no(name, value):
        yield _answer(home, name)


def _of_platform(platform: Any, name: str) -> Iterator[Atom]:
    if name in _poses():
        yield Atom(name, platform, _poses()[name])
    elif PREDICATE.match(name) and callable(getattr(type(platform), name, None)):
        yield _answer(platform, name)


def _gate(owner: type, name: str) -> Iterator[Atom]:
    """A predicate of a class that the function asks by the class's name."""
    member = inspect.getattr_static(owner, name, None)
    if isinstance(member, classmethod | staticmethod) and _says_yes_or_no(name, getattr(owner, name)):
        yield Atom(name, owner, tuple((word, staticmethod(call)) for word, call in _calls()))


def _member(owner: type, name: str) -> Iterator[Atom]:
    """A flag or predicate of the function's own class."""
    member = inspect.getattr_static(owner, name, None)
    if isinstance(member, bool):
        yield _flag(owner, name)
    elif name in _poses() and member is not None:
        yield Atom(name, owner, tuple((word, staticmethod(call)) for word, call in _poses()[name]))
    else:
        yield from _gate(owner, name)


def _says_yes_or_no(name: str, value: Any) -> bool:
    """Whether it can be stood in for by yes and no: it needs no arguments, or only AITER knows its answer."""
    if not isinstance(value, types.FunctionType | types.MethodType) and not is_cached(value):
        return False
    if looks_into_aiter(value) and str(inspect.signature(value).return_annotation) in ("bool", "<class 'bool'>"):
        return True
    return PREDICATE.match(name) is not None and not _needed(value)


def _needed(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


def _flag(home: Any, name: str) -> Atom:
    return Atom(name, home, (("no", False), ("yes", True)))


def _answer(home: Any, name: str) -> Atom:
    return Atom(name, home, _calls())


# ---- what is put in place


def _calls() -> tuple[tuple[str, Callable[..., Any]], ...]:
    return _constant((("no", False), ("yes", True)))


def _constant(values: Sequence[tuple[str, Any]]) -> tuple[tuple[str, Callable[..., Any]], ...]:
    """A function that gives the same answer whatever it is asked, for each value."""
    return tuple((word, lambda *_, _value=value, **__: _value) for word, value in values)


def _numbers(*values: int | None) -> tuple[tuple[str, Callable[..., Any]], ...]:
    return _constant(tuple((str(value), value) for value in values))


def _families() -> tuple[tuple[str, Callable[..., Any]], ...]:
    """``is_device_capability_family`` of a device of each family that vLLM asks about, and of none."""
    return tuple((str(own), lambda family, *_, _own=own: family == _own) for own in (0, 90, 100, 120))


def _specs() -> tuple[tuple[str, Callable[..., Any]], ...]:
    """``find_spec`` where no package is installed, and where every one is."""
    return ("nothing", lambda *_: None), ("everything", lambda name, *_: importlib.machinery.ModuleSpec(name, None))


def _echo(**arguments: Any) -> list[Any]:
    return list(arguments.values())


_KERNELS: tuple[tuple[int, ...] | None, ...] = (None, (4, 19, 120), (4, 19, 121), (5, 15, 0))
"""Versions of a Linux kernel below WSL, about the one that vLLM asks for."""


@functools.cache
def _poses() -> Mapping[str, tuple[tuple[str, Callable[..., Any]], ...]]:
    """Name -> what may stand in for it, where that is not yes and no or where it takes arguments."""
    configs = _constant(tuple(posed_configs().items()))
    return {
        "get_cdna_version": _numbers(0, 2, 3, 4, 5),
        "get_rdna_version": _numbers(0, 3, 4),
        "get_flash_attn_version": _numbers(None, 2, 3, 4),
        "is_fa_version_supported": _calls(),
        "flash_attn_supports_kv_cache_dtype": _calls(),
        "has_device_capability": _calls(),
        "is_device_capability": _calls(),
        "is_device_capability_family": _families(),
        "get_device_name": _constant((("a device", "a device"),)),
        "get_current_vllm_config": configs,
        "get_current_vllm_config_or_none": configs,
        "_get_wsl_kernel_version": _constant([(str(version), version) for version in _KERNELS]),
        "find_spec": _specs(),
        "_cached_get_attn_backend": (("asked", _echo),),
    }
