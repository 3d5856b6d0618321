"""The probe of the tiers ``route`` and ``guard``: (cell, simulated target) -> observation, inside a worker.

In: a cell. Out: what vLLM answered, with what the simulation could not know turned into ``indeterminate``, never into
an answer. It must not judge: what an answer is worth is said by ``judge`` in the parent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping

from harness.adapters.attention import decide_attention
from harness.adapters.attention_backends import decide_attention_backend
from harness.adapters.context import vllm_config
from harness.adapters.decision import Decision, find, raised, unsupported
from harness.adapters.defaults import decide_default
from harness.adapters.dtypes import decide_dtype
from harness.adapters.experts import decide_experts
from harness.adapters.gates import GATES_THAT_READ, decide_gate, forget_gate_answers, subject_reads_tables
from harness.adapters.guards import decide_guard
from harness.adapters.import_effects import decide_import_effect
from harness.adapters.ir_ops import decide_ir_op
from harness.adapters.linear import decide_allowlist, decide_linear
from harness.adapters.linear_kernels import decide_linear_kernel
from harness.adapters.moe import decide_moe
from harness.adapters.oracles import decide_moe_oracle
from harness.adapters.platform import decide_fact, forget_platform_answers
from harness.adapters.quantization import decide_quantization
from harness.adapters.switch import decide_switch
from harness.adapters.switches import switched
from harness.adapters.unquantized import decide_unquantized
from harness.adapters.weights import decide_weights
from harness.model.cell import Cell, Surface
from harness.model.record import Ended, Evidence, Finding, Observation
from harness.model.target import Platform
from harness.targets.journal import Journal, PrivateImport
from harness.targets.lacking import lacking_package
from harness.targets.simulated import Simulation
from harness.targets.tables import nearest_row
from harness.targets.worker import undecidable_import

_ADAPTERS: Mapping[Surface, Callable[[Cell], Decision]] = {
    Surface.PLATFORM: decide_fact,
    Surface.AITER_GATE: decide_gate,
    Surface.TUNED_GATE: decide_gate,
    Surface.ALLOWLIST: decide_allowlist,
    Surface.LINEAR: decide_linear,
    Surface.LINEAR_KERNEL: decide_linear_kernel,
    Surface.GUARD: decide_guard,
    Surface.UNQUANTIZED_GEMM: decide_unquantized,
    Surface.MOE: decide_moe,
    Surface.EXPERTS: decide_experts,
    Surface.MOE_ORACLE: decide_moe_oracle,
    Surface.ATTENTION: decide_attention,
    Surface.ATTENTION_BACKEND: decide_attention_backend,
    Surface.IR_OP: decide_ir_op,
    Surface.QUANTIZATION: decide_quantization,
    Surface.DTYPE: decide_dtype,
    Surface.DEFAULTS: decide_default,
    Surface.SWITCH: decide_switch,
    Surface.WEIGHTS: decide_weights,
}

NO_DEVICE = (
    "Torch not compiled with CUDA enabled",
    "Torch not compiled with XPU enabled",
    "No HIP GPUs are available",
    "Cannot access accelerator device",
)
"""What torch itself says when device code is reached on a build without a device."""


_UNKNOWN_TO_XPU = re.compile(r"'_OpNamespace' '_C' object has no attribute '(\w+)'")
"""An operator that is not there. On XPU a package beside vLLM registers them, and what it has is not known here."""

_LIGHT = frozenset(
    {
        Surface.PLATFORM,
        Surface.AITER_GATE,
        Surface.ALLOWLIST,
        Surface.DTYPE,
        Surface.IR_OP,
        Surface.ATTENTION,
        Surface.GUARD,
        Surface.IMPORT_EFFECT,
    }
)
"""Surfaces that need one module of the subject and no configuration: asked even where there is none."""


_DEAR = frozenset(
    {
        Surface.WEIGHTS,
        Surface.LINEAR_KERNEL,
        Surface.EXPERTS,
        Surface.MOE_ORACLE,
        Surface.GUARD,
        Surface.IMPORT_EFFECT,
    }
)
"""Surfaces that are asked once: an answer costs much, or is about the process and not about a decision."""

INITIALISED = "device initialised"
"""The question of the evidence that says which call would have created a context on a real device."""


def prepare(simulation: Simulation) -> None:
    """Import the subject and set its configuration for good.

    Where the environment cannot give it one (a package is missing or too new for the release), that is noted, and the
    surfaces that need only a module of the subject are asked all the same.

    Raises:
        Exception: whatever the subject raised, where it is the subject's own fault.
    """
    import gc

    gc.disable()  # importing 600 modules would walk the heap again and again
    stack = contextlib.ExitStack()
    try:
        if simulation.target.platform is not Platform.NONE:  # without a device vLLM has no configuration
            stack.enter_context(vllm_config())
        if simulation.stand_in is not None:
            simulation.stand_in.read_by_subject = subject_reads_tables()
    except Exception as error:  # whatever a package or a stand-in raised, if it was one
        simulation.lacking = undecidable_import(error, simulation)
        if not simulation.lacking:
            raise
    simulation.keep.append(stack)
    gc.enable()


def observe(simulation: Simulation, cell: Cell) -> Observation:
    """Answer one cell. Questions that AITER's stand-in can only assume are put under both assumptions."""
    if simulation.lacking and cell.kernel.surface not in _LIGHT:
        return Observation(ended=Ended.INDETERMINATE, detail=simulation.lacking)
    decision, notes = _ask(simulation, cell, assumed=True)
    again = _asked_again(simulation, cell, decision, notes)
    asked = [f"what a real {name} gives" for name, present in simulation.view.packages.items() if present]
    if asked and decision.ended is Ended.RAISED:  # perhaps the stand-in's doing, so never the subject's fault
        notes.unanswerable.extend(asked)
    if decision.ended is Ended.RAISED and simulation.target.platform is Platform.XPU:
        notes.unanswerable.extend(
            f"whether vllm-xpu-kernels has {name}" for name in _UNKNOWN_TO_XPU.findall(decision.detail)
        )
    no_device = decision.ended is Ended.RAISED and any(words in decision.detail for words in NO_DEVICE)
    if notes.unanswerable or no_device:
        decision = _undecided(notes.unanswerable or ["what the device does"], f"Here: {_outcome(decision)}", decision)
    elif notes.unknown:
        other, more = _ask(simulation, cell, assumed=False)
        if more.unanswerable or _differs(decision, other):
            ways = f"If so: {_outcome(decision)}; if not: {_outcome(other)}"
            decision = _undecided(notes.unknown + more.unanswerable, ways, decision)
        else:  # what differs beside the decision is not known either
            evidence = tuple(item for item in decision.evidence if item in other.evidence)
            findings = tuple(item for item in decision.findings if item in other.findings)
            decision = dataclasses.replace(decision, evidence=evidence, findings=findings)
    return Observation(
        ended=decision.ended,
        chosen=decision.chosen,
        symbol=decision.symbol,
        detail=decision.detail.replace(f"{simulation.view.tree}/", ""),
        candidates=decision.candidates,
        evidence=decision.evidence
        + _evidence(notes)
        + _table_rows(simulation, cell, decision)
        + _operators_from(simulation),
        findings=decision.findings + again + tuple(_private_import(cell, hit) for hit in dict.fromkeys(notes.private)),
    )


def _ask(simulation: Simulation, cell: Cell, *, assumed: bool) -> tuple[Decision, Journal]:
    if simulation.stand_in is not None:
        simulation.stand_in.assume(assumed)
    with switched(cell), simulation.journal.slice() as notes:
        try:
            missing = [need for need in cell.kernel.needs if find(*need.split(":")) is None]
            decision = unsupported(missing[0]) if missing else _decide(simulation, cell)
        except Exception as error:  # importing the surface itself failed, in whatever way
            decision = raised(error)
            if isinstance(error, ImportError) and (lacking := lacking_package(error)):
                detail = f"cannot tell what vLLM does with {lacking}. Here: {decision.detail}"
                decision = Decision(Ended.INDETERMINATE, symbol=decision.symbol, detail=detail)
    return decision, notes


def _decide(simulation: Simulation, cell: Cell) -> Decision:
    if cell.kernel.surface is Surface.IMPORT_EFFECT:  # what was done so far is the question
        return decide_import_effect(cell, simulation.journal.deeds)
    forget_gate_answers()
    forget_platform_answers()
    return _ADAPTERS[cell.kernel.surface](cell)


def _asked_again(simulation: Simulation, cell: Cell, first: Decision, notes: Journal) -> tuple[Finding, ...]:
    """The same question once more: nothing has changed, so another answer is a fault.

    Not where the answer hangs on something unknown, nor where asking builds layers and weights, which is dear.
    """
    if cell.kernel.surface in _DEAR or notes.unknown or notes.unanswerable or first.ended is not Ended.ANSWERED:
        return ()
    second, more = _ask(simulation, cell, assumed=True)
    if more.unknown or more.unanswerable or not _differs(first, second):
        return ()
    message = f"asked twice in one process, it answers {_outcome(first)} and then {_outcome(second)}"
    return (Finding(rule="I10", symbol=first.symbol or cell.kernel.name, message=message),)


def _differs(one: Decision, other: Decision) -> bool:
    return (one.ended, one.chosen, one.candidates) != (other.ended, other.chosen, other.candidates)


def _undecided(questions: list[str], ways: str, decision: Decision) -> Decision:
    """The decision hangs on something that the simulation cannot know."""
    detail = f"cannot tell {'; '.join(dict.fromkeys(questions))}. {ways}"
    return dataclasses.replace(decision, ended=Ended.INDETERMINATE, chosen=None, detail=detail)


def _outcome(decision: Decision) -> str:
    return decision.chosen or decision.detail


def _evidence(notes: Journal) -> tuple[Evidence, ...]:
    """What stand-ins were asked, and which calls would have initialised a real device; once each.

    Not what a module did while it was imported: which cell imports it first is chance.
    """
    done = (deed for deed in dict.fromkeys(notes.deeds.initialised) if not deed.importing)
    return (
        *(Evidence(question=x.question, answer=x.answer, source=x.source) for x in dict.fromkeys(notes.lookups)),
        *(Evidence(question=INITIALISED, answer=f"{deed.what} by {deed.by}") for deed in done),
    )


def _operators_from(simulation: Simulation) -> tuple[Evidence, ...]:
    """That the operators of the build are not the subject's own, where they are not."""
    question = "operators that the build registers"
    told = Evidence(question=question, answer="those of a table", source=simulation.operators_from)
    return (told,) if simulation.operators_from else ()


def _table_rows(simulation: Simulation, cell: Cell, decision: Decision) -> tuple[Evidence, ...]:
    """The rows behind the gates that read a table by themselves, with the target that each row was tuned for."""
    if simulation.tables is None or cell.layer is None:
        return ()
    said_yes = [item.question for item in decision.evidence if item.answer == "True"]
    rows = []
    for gate, base in GATES_THAT_READ.items():
        if not any(f"{gate}(" in question for question in said_yes):
            continue
        row = nearest_row(simulation.tables, base, simulation.target, cell.layer.n, cell.layer.k)
        if row is not None:
            words = f"{base}: tuned row for N={cell.layer.n}, K={cell.layer.k}"
            tuned_for = f"gfx={row.columns.get('gfx', 'any')}, cu_num={row.columns.get('cu_num', 'any')}"
            rows.append(Evidence(question=words, answer=tuned_for, source=row.source))
    return tuple(rows)


def _private_import(cell: Cell, hit: PrivateImport) -> Finding:
    symbol = hit.importer.rpartition(" in ")[2]
    where = hit.importer.rpartition(" in ")[0]
    return Finding(
        rule="I4",
        symbol=symbol,
        message=f"imports {hit.module}, which is private to another platform, on {cell.target.platform} ({where})",
    )
