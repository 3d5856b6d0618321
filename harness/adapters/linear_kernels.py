"""Classes of linear kernels: what each says it supports, whatever a selector would have asked before.

In: a cell of surface ``linear_kernel``: an interface, whose classes are found and asked everything; a list of the
package or a selector, which have modules of their own. Out: one stable line, with a candidate for each answer that is
not like the one before. It must not build a kernel, and must not weigh an answer: what a class raises is said in the
line.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.adapters.categories import categorise
from harness.adapters.decision import Decision, Missing, answered, find
from harness.adapters.linear_lists import decide_list
from harness.adapters.linear_requests import LINEAR, Question, questions_of
from harness.adapters.linear_selectors import decide_selector
from harness.adapters.switches import turned
from harness.adapters.watch import Watch, code_of
from harness.model.cell import Cell
from harness.model.record import Candidate, Ended

_PREDICATES = frozenset({"is_supported", "can_implement", "_supports_quant_scheme"})
_WARNING = frozenset({"warning", "warning_once"})
_PACKAGE_GATE = re.compile(r"has_\w+")
"""Names by which kernel modules ask whether a package is here."""

_TABLE_GATE = re.compile(r"is_\w+_tuned")
"""Names of the gates of ``rocm_aiter_ops`` that look into AITER's tables."""

_PARTS = ("base_type", "fallback_type")
"""What an abstract kernel that is made of two others leaves open."""


@dataclass(frozen=True)
class _Answer:
    """What a class says to one question; ``accepted`` is None where the predicate raises, with ``reason``."""

    question: Question
    accepted: bool | None
    reason: str
    place: int
    """Line of the statement that answered first what was answered at last: two reasons of one place are the same."""
    warns: bool


@dataclass
class _Labels:
    """Short names of a class's answers: ``yes``, or the category of a reason, numbered where there are several."""

    names: dict[int, str] = field(default_factory=dict)

    def of(self, answer: _Answer) -> str:
        """The name of an answer."""
        warns = " and warns" if answer.warns else ""
        if answer.accepted:
            return f"yes{warns}"
        if answer.accepted is None:
            return answer.reason
        return self._numbered(answer) + warns

    def _numbered(self, answer: _Answer) -> str:
        if answer.place not in self.names:
            category = categorise(answer.reason).value
            before = sum(name.partition(" ")[0] == category for name in self.names.values())
            self.names[answer.place] = f"{category} {before + 1}" if before else category
        return self.names[answer.place]


def decide_linear_kernel(cell: Cell) -> Decision:
    """Ask the classes of an interface, a list of the package, or a selector under many settings."""
    return answered(lambda: _ENTRIES[str(cell.kernel.scheme["entry"])](cell))


def _interface(cell: Cell) -> Decision:
    scheme = cell.kernel.scheme
    name, prefix, apart = str(scheme["interface"]), str(scheme.get("only", "")), scheme.get("without")
    questions = questions_of(name)
    kernels = [kernel for kernel in classes_of(name) if kernel.__name__.startswith(prefix)]
    kernels = [kernel for kernel in kernels if apart is None or not kernel.__name__.startswith(str(apart))]
    if not kernels:
        raise Missing(f"linear kernel {prefix} below {name}")
    lines: list[str] = []
    candidates: list[Candidate] = []
    for kernel in kernels:
        labels = _Labels()
        answers = list(_asked(kernel, questions))
        lines.append(f"{kernel.__name__}: {_line(answers, labels, _capability(kernel))}")
        candidates.extend(_candidates(kernel, answers, labels))
    return Decision(Ended.ANSWERED, " | ".join(lines), name, candidates=tuple(candidates))


def classes_of(interface: str) -> tuple[type, ...]:
    """The classes of the package below an interface, by name; of the abstract ones, those made of two others.

    Classes are found and not named, so that one of a later release is asked too.
    """
    root = find(LINEAR, interface)
    found: dict[str, type] = {}
    left = [root] if root is not None else []
    while left:
        kernel = left.pop()
        left.extend(kernel.__subclasses__())
        concrete = not inspect.isabstract(kernel) or _leaves_open(kernel)
        if kernel.__module__.startswith(LINEAR) and kernel is not root and concrete:
            found[kernel.__name__] = kernel
    return tuple(found[name] for name in sorted(found))


def _leaves_open(kernel: type) -> bool:
    return set(_PARTS) <= set(vars(kernel).get("__annotations__", {}))


def _capability(kernel: Any) -> str:
    """The least capability of a mixed-precision kernel, which its selector compares."""
    least = getattr(kernel, "get_min_capability", None)
    return "" if least is None else f"capability {least()}; "


# ---- asking


def _asked(kernel: Any, questions: Sequence[Question]) -> Iterator[_Answer]:
    known = [question for question in questions if hasattr(kernel, question.predicate)]
    if _leaves_open(kernel):
        yield from _composed(kernel, known)
        return
    few = list({question.group: question for question in reversed(known)}.values())[::-1]
    with _tuned(True):
        yield from (ask(kernel, question) for question in known)
        yield from _asked_without_gates(kernel, few)
        yield from _asked_with_variables(kernel, few)
    if "aiter" in kernel.__name__.lower():
        with _tuned(False):
            yield from (ask(kernel, _in_group(question, "untuned")) for question in few)


def _asked_without_gates(kernel: Any, few: Sequence[Question]) -> Iterator[_Answer]:
    """A few questions again where a package is here that is not, or the reverse."""
    module = sys.modules[kernel.__module__]
    for name, gate in sorted(vars(module).items()):
        if callable(gate) and _PACKAGE_GATE.fullmatch(name) and not inspect.signature(gate).parameters:
            with _other_answer(module, name, gate) as state:
                yield from (ask(kernel, _in_group(question, f"{state} {name}")) for question in few)


@contextlib.contextmanager
def _tuned(answer: bool) -> Iterator[None]:
    """AITER's tables with a row for every shape, or with none: what they hold is the question of ``tuned_gate``."""
    owner = find("vllm._aiter_ops", "rocm_aiter_ops")
    gates = {name: gate for name, gate in vars(owner).items() if _TABLE_GATE.fullmatch(name)} if owner else {}
    try:
        for name in gates:
            setattr(owner, name, staticmethod(lambda *_arguments: answer))
        yield
    finally:
        for name, gate in gates.items():
            setattr(owner, name, gate)


def _asked_with_variables(kernel: Any, few: Sequence[Question]) -> Iterator[_Answer]:
    """A few questions again with each switch turned that the class's own predicates read."""
    from vllm import envs

    codes = (code_of(getattr(kernel, name)) for name in sorted(_PREDICATES) if hasattr(kernel, name))
    read = {name for code in codes if code is not None for name in code.co_names if name.startswith("VLLM_")}
    for name in sorted(read):
        value = getattr(envs, name)
        if isinstance(value, bool):
            word = "0" if value else "1"
            with turned({name: word}):
                yield from (ask(kernel, _in_group(question, f"{name}={word}")) for question in few)


def _in_group(question: Question, group: str) -> Question:
    return Question(group, f"{question.group} {question.words}", question.predicate, question.arguments)


@contextlib.contextmanager
def _other_answer(module: types.ModuleType, name: str, gate: Callable[[], bool]) -> Iterator[str]:
    """The module as it is where the package is here, if it is not, and the reverse: ``with`` or ``without`` it."""
    try:
        here = bool(gate())
    except Exception:  # a gate of another platform, of which nothing can be said
        here = False
    setattr(module, name, lambda: not here)
    try:
        yield "without" if here else "with"
    finally:
        setattr(module, name, gate)


def _composed(kernel: Any, questions: Sequence[Question]) -> Iterator[_Answer]:
    """What a kernel made of two others makes of their four answers: its own logic, with parts of ours."""
    few = list({question.predicate: question for question in reversed(questions)}.values())[::-1]
    for base, fallback in itertools.product((True, False), repeat=2):
        parts = {"base_type": _part("base", base), "fallback_type": _part("fallback", fallback)}
        composed = type(kernel.__name__, (kernel,), {**parts, "__module__": __name__})
        said = [word for word, accepts in (("base", base), ("fallback", fallback)) if accepts]
        for question in few:
            words = f"{question.predicate} with {' and '.join(said) or 'neither'}"
            yield ask(composed, Question("parts", words, question.predicate, question.arguments))


def _part(name: str, accepts: bool) -> Any:
    answer = (accepts, None if accepts else f"the {name} type refuses")
    return types.SimpleNamespace(is_supported=lambda _number: answer, can_implement=lambda _config: answer)


def ask(kernel: Any, question: Question) -> _Answer:
    """One question. Classes are asked off their platform too, so what they raise there is an answer."""
    with Watch({}, _PREDICATES | _WARNING) as watch:
        try:
            answer = getattr(kernel, question.predicate)(*question.arguments)
        except ImportError as error:
            return _Answer(question, None, f"raises for want of {error.name or 'an import'}", 0, warns=False)
        except Exception as error:  # whatever a class of another platform raises
            return _Answer(question, None, f"raises {type(error).__name__}", 0, warns=False)
    accepted, reason = answer if isinstance(answer, tuple) else (answer, "")
    said = (seen.line for seen in watch.returns if seen.name in _PREDICATES and seen.value == answer)
    warns = any(seen.name in _WARNING for seen in watch.returns)
    reason = reason or ("" if accepted else "a quantization scheme")
    return _Answer(question, bool(accepted), reason, next(said, 0), warns)


# ---- the line


def _line(answers: Iterable[_Answer], labels: _Labels, fact: str) -> str:
    """``device yes; gptq, awq yes, but shape: N 4100; scheme: uint8``: groups that answer alike are told together."""
    said: dict[str, list[str]] = {}
    for group, members in _groups(answers).items():
        said.setdefault(_said([(labels.of(answer), answer.question.words) for answer in members]), []).append(group)
    return fact + "; ".join(f"{', '.join(groups)} {words}" for words, groups in said.items())


def _groups(answers: Iterable[_Answer]) -> Mapping[str, list[_Answer]]:
    groups: dict[str, list[_Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.question.group, []).append(answer)
    return groups


def _said(pairs: Sequence[tuple[str, str]]) -> str:
    """The commonest label of a group, and the questions that got another."""
    labels = [label for label, _ in pairs]
    most = max(dict.fromkeys(labels), key=labels.count)
    others: dict[str, list[str]] = {}
    for label, words in pairs:
        if label != most:
            others.setdefault(label, []).append(words)
    rest = "; ".join(f"{label}: {','.join(words)}" for label, words in others.items())
    return f"{most}, but {rest}" if rest else most


def _candidates(kernel: type, answers: Iterable[_Answer], labels: _Labels) -> Iterator[Candidate]:
    """The first question of each group that got each of its answers, with vLLM's own words."""
    for group, members in _groups(answers).items():
        told: dict[str, _Answer] = {}
        for answer in members:
            told.setdefault(labels.of(answer), answer)
        for answer in told.values():
            refused = not answer.accepted
            yield Candidate(
                name=f"{kernel.__name__} {group} {answer.question.words}",
                accepted=not refused,
                reason=answer.reason if refused else "",
                category=categorise(answer.reason) if refused else None,
            )


_ENTRIES: Mapping[str, Callable[[Cell], Decision]] = {
    "interface": _interface,
    "list": decide_list,
    "selector": decide_selector,
}
