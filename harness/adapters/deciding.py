"""Deciding functions and predicates of a module of the subject, each asked over its domain under all that it reads.

In: a module, or a class. Out: name and answers of each, in one stable line without addresses. Which functions decide
is told by their names and by what they return, never by a list. It must not call a function that looks into AITER, one
that wants a built layer, or device code; what a function raises is its answer.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.adapters.answers import counted, grouped, said, shown
from harness.adapters.atoms import Atom, atoms_of, is_cached, looks_into_aiter
from harness.adapters.parameter_domains import inputs_of
from harness.adapters.posed_configs import Posed, changes, copied
from harness.adapters.posing import Situation, posed, situations
from harness.adapters.switches import kept_environment

DECIDES = re.compile(
    r"^_?(is|are|can|has|supports?|should|uses?|on|verify|validate|check|select|choose|dispatch|resolve|shares)_"
    r"|^_?(get|init)_\w*(backend|priorit|kernel|capabilit|valid|support|version|layout|block_size)"
    r"|^_?(supports?|select|fallback)|_incompatib|_from_gcn_arch$"
)
"""Names of functions that decide, by the conventions of the field."""

_MOST_INPUTS = 1200
_MOST_SITUATIONS = 256
_MOST = 3000
"""Questions to one function; where there are more, all inputs are asked in the first situation, few in the others."""

_FEW = 8
"""Inputs that are asked in every situation, however many there are."""

_SHORT = 16
"""Inputs whose answers are written out; of more, how often each answer is given."""

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


Answers = Sequence[tuple[str, str]]
"""Name of an input, and the answer to it."""


class _Logger:
    """A stand-in for a module's logger that knows whether the user was warned."""

    def __init__(self) -> None:
        self.warned = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith(("warn", "error")):
            return self._warn
        return lambda *_, **__: None

    def _warn(self, *_: object, **__: object) -> None:
        self.warned = True


def decisions_of_module(module: types.ModuleType) -> Iterator[tuple[str, str]]:
    """(name, answers) of the module's own deciding functions, and of methods of its classes that need no object."""
    for name, function in _functions(module):
        line = decision(function, None, {})
        if line:
            yield name, line


def decisions_of_class(cls: type, plain: Mapping[str, Any], *, own: bool) -> Iterator[tuple[str, str]]:
    """(name, answers) of a class's deciding methods that need no object, inherited ones included.

    Args:
        cls: the class that is asked.
        plain: parameter -> what a plain question to this class has there.
        own: its flags and predicates are posed as well, where one of its methods reads another.
    """
    for name in sorted(dir(cls)):
        member = inspect.getattr_static(cls, name)
        if DECIDES.match(name) and isinstance(member, classmethod | staticmethod) and _is_of_subject(member):
            line = decision(getattr(cls, name), cls if own else None, plain)
            if line:
                yield name, line


def _functions(module: types.ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if (isinstance(value, types.FunctionType) or is_cached(value)) and _decides(name, value):
            yield name, value


def _is_of_subject(member: classmethod[Any, ..., Any] | staticmethod[..., Any]) -> bool:
    """Whether a method is no part of Python, like those of enumerations."""
    return inspect.unwrap(member.__func__).__module__.partition(".")[0] not in sys.stdlib_module_names


def _decides(name: str, function: Callable[..., Any]) -> bool:
    returns = inspect.signature(function).return_annotation
    return DECIDES.match(name) is not None or returns in (bool, "bool")


def decision(function: Callable[..., Any], owner: type | None, plain: Mapping[str, Any]) -> str:
    """What a function answers to all of its inputs under all that it reads; empty where it cannot be asked."""
    if looks_into_aiter(function):
        return ""
    inputs = inputs_of(function, _MOST_INPUTS, plain)
    if not inputs:
        return ""
    atoms = atoms_of(function, owner)
    every = situations(atoms, _MOST_SITUATIONS)
    few = inputs[: max(_MOST // len(every), _FEW)]
    told = _told({situation: _answers(function, few, situation) for situation in every}, atoms)
    if len(few) < len(inputs):
        told = f"{told}; {counted(_answers(function, inputs, every[0]))}"
    return told


def _told(answers: Mapping[Situation, Answers], atoms: Sequence[Atom]) -> str:
    """What is answered in which situation, without the atoms on which nothing hangs."""
    moving = [place for place in range(len(atoms)) if _hangs_on(answers, place)]
    told: dict[str, str] = {}
    for situation, given in answers.items():
        words = " ".join(f"{atoms[place].name}={atoms[place].values[situation[place][1]][0]}" for place in moving)
        told.setdefault(words, _line(given))
    if len(told) == 1:
        return next(iter(told.values()))
    return grouped(told.items()) if len(told) <= _SHORT else counted(told.items())


def _hangs_on(answers: Mapping[Situation, object], place: int) -> bool:
    """Whether another value of the atom ever gives another answer, all else being equal."""
    seen: dict[Situation, object] = {}
    for situation, given in answers.items():
        rest = situation[:place] + situation[place + 1 :]
        if seen.setdefault(rest, given) != given:
            return True
    return False


def _line(given: Answers) -> str:
    if len(given) == 1:
        return given[0][1]
    return grouped(given, ", ") if len(given) <= _SHORT else counted(given)


def _answers(
    function: Callable[..., Any], inputs: Sequence[tuple[str, Mapping[str, Any]]], situation: Situation
) -> Answers:
    module = sys.modules[inspect.unwrap(getattr(function, "__func__", function)).__module__]
    clear = _cache_clear(function)
    logger, before = _Logger(), vars(module).get("logger")
    with kept_environment(), posed(situation):
        if before is not None:
            vars(module)["logger"] = logger
        try:
            return tuple((word, _ask(function, arguments, logger, clear)) for word, arguments in inputs)
        finally:
            clear()
            if before is not None:
                vars(module)["logger"] = before


def _cache_clear(function: Any) -> Callable[[], object]:
    """Forget what a cached function has kept: it was told under what was posed."""
    while function is not None:
        if is_cached(function):
            clear: Callable[[], object] = function.cache_clear
            return clear
        function = getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
    return lambda: None


def _ask(
    function: Callable[..., Any], arguments: Mapping[str, Any], logger: _Logger, clear: Callable[[], object]
) -> str:
    posed_ones = {name: copied(value) for name, value in arguments.items() if isinstance(value, Posed)}
    logger.warned = False
    clear()
    try:
        answer = shown(plainly(function(**{**arguments, **posed_ones})), {})
    except Exception as error:  # whatever is raised is the answer
        answer = _ADDRESS.sub("", f"{type(error).__name__}: {said(error)}".rstrip(": "))
    moved = " ".join(filter(None, (changes(arguments[name], one, {}) for name, one in posed_ones.items())))
    return answer + " and warns" * logger.warned + (f" and sets {moved}" if moved else "")


def plainly(value: Any) -> Any:
    """An answer with what has no name of its own put as text: data types, and multiples as what they are one of."""
    import torch

    if isinstance(value, torch.dtype):
        return str(value).rpartition(".")[2]
    if hasattr(value, "base") and type(value).__name__ == "MultipleOf":
        return f"MultipleOf({value.base})"
    if isinstance(value, Mapping):
        return [f"{key}={shown(plainly(inner), {})}" for key, inner in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(map(plainly, value)) if type(value) in (list, set, frozenset) else tuple(map(plainly, value))
    return value
