"""The probe of whole models: (config.json, simulated target) -> what each layer got, inside a worker.

In: a cell of surface ``whole_model``, whose scheme has ``config`` (the text), ``tp``, ``ep`` and ``passes``. Out: a
``WholeModel``. What AITER's stand-in can only assume is asked under both assumptions: where the model differs, it is
indeterminate and says in what. It must not judge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from harness.adapters.gates import forget_gate_answers, subject_reads_tables
from harness.adapters.platform import forget_platform_answers
from harness.adapters.whole_model import built, import_what_every_model_needs
from harness.model.cell import Cell
from harness.model.record import Ended
from harness.model.whole import ModuleRoute, WholeModel
from harness.targets.journal import Journal
from harness.targets.simulated import Simulation


def prepare(simulation: Simulation) -> None:
    """Import what every model needs.

    Raises:
        Exception: whatever the subject raised, where it is the subject's own fault.
    """
    import_what_every_model_needs()
    if simulation.stand_in is not None:
        simulation.stand_in.read_by_subject = subject_reads_tables()


def observe(simulation: Simulation, cell: Cell) -> WholeModel:
    """Build one model. Where something was assumed, build it again under the other assumption and compare."""
    seen, notes = _build(simulation, cell, assumed=True)
    unknown = tuple(dict.fromkeys([*notes.unknown, *notes.unanswerable]))
    differs: tuple[str, ...] = ()
    if notes.unanswerable and seen.ended is not Ended.UNSUPPORTED:
        detail = f"cannot tell {'; '.join(dict.fromkeys(notes.unanswerable))}. Here: {seen.chosen or seen.detail}"
        seen = seen.model_copy(update={"ended": Ended.INDETERMINATE, "detail": detail})
    if notes.unknown:
        other, _ = _build(simulation, cell, assumed=False)
        differs = differences(seen, other)
    if differs:
        detail = f"hangs on what AITER has (see unknown): {'; '.join(differs)}"
        seen = seen.model_copy(update={"ended": Ended.INDETERMINATE, "detail": detail})
    detail = seen.detail.replace(f"{simulation.view.tree}/", "")
    return seen.model_copy(update={"unknown": unknown, "detail": detail})


def _build(simulation: Simulation, cell: Cell, *, assumed: bool) -> tuple[WholeModel, Journal]:
    if simulation.stand_in is not None:
        simulation.stand_in.assume(assumed)
    forget_gate_answers()
    forget_platform_answers()
    with contextlib.ExitStack() as stack:
        with simulation.journal.slice() as notes:
            seen, run = stack.enter_context(built(cell))
        if assumed and cell.kernel.scheme["passes"]:
            seen = seen.model_copy(update={"passes": run()})
        return seen, notes


def differences(one: WholeModel, other: WholeModel) -> tuple[str, ...]:
    """What two builds of a model choose differently, in words.

    Where the second broke, for want of something of AITER's that vLLM takes for granted, there is nothing to compare:
    what was assumed is then what vLLM needs.
    """
    if other.ended is Ended.RAISED:
        return ()
    if one.ended is not other.ended:
        return (f"{one.chosen or one.detail} if so; {other.chosen or other.detail} if not",)
    left, right = (_choices(model.modules) for model in (one, other))
    names = dict.fromkeys([*left, *right])
    return tuple(
        f"{name}: {left.get(name, 'not there')} if so; {right.get(name, 'not there')} if not"
        for name in names
        if left.get(name) != right.get(name)
    )


def _choices(modules: Sequence[ModuleRoute]) -> dict[str, str]:
    return {module.name: " ".join([module.kernel, *map("=".join, module.choices.items())]) for module in modules}
