"""A whole model as text: what each module got, how far meta tensors carried it, and what stopped it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.model.record import Ended
from harness.model.whole import ModuleRoute, Pass, Stop, WholeModel


def whole_model_lines(model: WholeModel) -> list[str]:
    """Everything that a reader wants to know, line by line."""
    lines = []
    if model.ended is not Ended.ANSWERED:
        lines.append(f"{model.ended}: {model.detail}" + (f" (at {model.symbol})" if model.symbol else ""))
    lines += _modules(model.modules)
    lines += _passes(model.passes)
    if model.unknown:
        lines.append("assumed, or not to be known here:")
        lines += [f"  {question}" for question in model.unknown]
    return lines


def same_passes(passes: Iterable[Pass]) -> list[list[Pass]]:
    """Passes that differ in nothing but the number of tokens, together."""
    groups: dict[object, list[Pass]] = {}
    for one in passes:
        groups.setdefault((one.name, one.ended, one.layers_done, one.stops, one.operators), []).append(one)
    return list(groups.values())


def _modules(modules: Sequence[ModuleRoute]) -> list[str]:
    rows = [(f"{one.count} x", one.name, _shape(one), _answer(one)) for one in modules]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return [f"  {a:>{widths[0]}} {b:<{widths[1]}}  {c:>{widths[2]}}  {answer}" for a, b, c, answer in rows]


def _shape(route: ModuleRoute) -> str:
    return f"{route.shape[0]}x{route.shape[1]}" if route.shape else ""


def _answer(route: ModuleRoute) -> str:
    """``AiterFp8BlockScaledMMKernel (Fp8LinearMethod)``, with what else was chosen."""
    choices = ", ".join(f"{key} {value}" for key, value in route.choices.items())
    parts = [part for part in (route.method, choices) if part]
    return (route.kernel or route.module) + (f" ({'; '.join(parts)})" if parts else "")


def _passes(passes: Sequence[Pass]) -> list[str]:
    """Each group of equal passes; a stop and an operator are told at the first group that has it."""
    lines: list[str] = []
    told: set[object] = set()
    for group in same_passes(passes):
        first = group[0]
        tokens = f" of {', '.join(str(one.tokens) for one in group)} tokens" if first.tokens else ""
        state = "ran to its end" if first.ended is Ended.ANSWERED else "indeterminate"
        lines.append(f"{first.name}{tokens}: {state}, {first.layers_done} of {first.layers} layers")
        lines += [f"  stop at {_where(stop)}: {stop.words}" for stop in first.stops if stop not in told]
        custom = [name for name in first.operators if not name.startswith("aten::") and name not in told]
        if custom:
            lines.append(f"  reaches {', '.join(custom)}")
        told.update(first.stops, custom)
    return lines


def _where(stop: Stop) -> str:
    return f"{stop.at} in {stop.module}" if stop.module else stop.at
