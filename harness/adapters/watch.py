"""Watching vLLM's own functions return, without changing them: which selector ran, and which gates it asked.

In: code objects of interest. Out: what each returned and its local variables at that moment. ``sys.setprofile`` is
used because a patched function would no longer be vLLM's own code, and because it sees every call path alike.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType, TracebackType
from typing import Any


@dataclass(frozen=True)
class Returned:
    """One return of a watched function; ``value`` is None also when an exception passed through it."""

    name: str
    value: Any
    variables: Mapping[str, Any]
    line: int = 0
    """Line of the file that it returned from."""
    caller: str = ""
    """Name of the function that called it."""
    surroundings: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the function that called it."""


class Watch:
    """Context manager that collects the returns of the watched functions, in order.

    ``codes`` are watched under the name given; ``named`` are names under which any function is watched, where which
    functions there are is only known once the subject has imported them.
    """

    def __init__(self, codes: Mapping[CodeType, str], named: frozenset[str] = frozenset()) -> None:
        self.returns: list[Returned] = []
        self._codes = codes
        self._named = named

    def __enter__(self) -> Watch:
        self._before = sys.getprofile()
        sys.setprofile(self._profile)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.setprofile(self._before)

    def _profile(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "return":
            return
        name = self._codes.get(frame.f_code) or (frame.f_code.co_name if frame.f_code.co_name in self._named else None)
        if name is None:
            return
        seen = Returned(name, value, dict(frame.f_locals), frame.f_lineno)
        outer = frame.f_back
        if outer is not None:
            seen = replace(seen, caller=outer.f_code.co_name, surroundings=dict(outer.f_locals))
        self.returns.append(seen)


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """The code object behind a function, method, static method or ``functools`` wrapper; None for C functions."""
    while True:
        inner = getattr(function, "__wrapped__", None) or getattr(function, "__func__", None)
        if inner is None:
            return getattr(function, "__code__", None)
        function = inner


def accepted_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that this release's ``function`` takes: the others came with a later one."""
    parameters = parameters_of(function)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(arguments)
    return {name: value for name, value in arguments.items() if name in parameters}


@functools.cache
def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function or class by name; looked at once, since a cell may ask hundreds of times."""
    return inspect.signature(function).parameters
