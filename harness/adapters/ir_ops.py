"""IR operators: in which order the platform ranks the implementations of an operator, and which of them is run.

In: a cell of surface ``ir_op``, whose name is the question: ``order.OPERATOR.RUN`` (the ranking, ``aiter > native``, in
a run of ``engine_config``), ``dispatch.OPERATOR.TENSORS`` (which of them vLLM's registry runs for those tensors) or
``support.OPERATOR.IMPLEMENTATION`` (what one of them says of itself). It must not run an implementation: only the
predicates of the registry see the tensors, which are small and on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.adapters.decision import Decision, Missing, answered, find
from harness.adapters.engine_config import configured
from harness.adapters.watch import accepted_arguments
from harness.model.cell import Cell
from harness.model.record import Candidate, Category, Ended, Evidence

_RUN = "graphs_only"
"""The run whose ranking is dispatched: the longest there is, without code generation and with graphs."""

_INPUTS: Mapping[str, Mapping[str, Any]] = {
    "bfloat16": {},
    "float16": {"dtype": "float16"},
    "float32": {"dtype": "float32"},
    "mixed_weight": {"weight_dtype": "float32"},
    "no_weight": {"weight_dtype": None},
    "partial_variance": {"variance_size": 64},
    "three_dims": {"shape": (2, 4, 128)},
    "strided": {"shape": (2, 8, 128), "step": 2},
}
"""Tensors that the predicates are asked about: activations [tokens, 128] unless stated, weight [128] of their dtype."""


def decide_ir_op(cell: Cell) -> Decision:
    """Ask for the ranking, the dispatch or the support of one operator."""
    ask, name, detail, *_ = cell.kernel.name.split(".")  # a fourth word tells cells of one question apart
    return answered(lambda: _ASKS[ask](_operator(name), detail))


def _order(operator: Any, run: str) -> Decision:
    order = _ranking(operator, run)
    return Decision(Ended.ANSWERED, " > ".join(order), _ranked_by(), candidates=_candidates(operator, order))


def _dispatch(operator: Any, tensors: str) -> Decision:
    order, arguments = _ranking(operator, _RUN), _arguments(operator, tensors)
    with operator.set_priority(order):
        taken = operator.dispatch(**arguments)
        ranked = operator.get_priority()
    asked = Evidence(question=f"IrOp('{operator.name}').get_priority()", answer=" > ".join(ranked))
    candidates = _candidates(operator, order, arguments)
    return Decision(Ended.ANSWERED, taken.provider, _ranked_by(), candidates=candidates, evidence=(asked,))


def _support(operator: Any, provider: str) -> Decision:
    """``supported: bfloat16, float16; not: float32``, or ``unsupported here`` where the platform has it not."""
    implementation = operator.impls.get(provider)
    if implementation is None:
        raise Missing(f"implementation {provider} of IR operator {operator.name}")
    symbol = f"{operator.name}.impls[{provider!r}].supports_args"
    if not implementation.supported:
        return Decision(Ended.ANSWERED, "unsupported here", symbol)
    takes: dict[bool, list[str]] = {True: [], False: []}
    for words in _INPUTS:
        takes[bool(implementation.supports_args(**_arguments(operator, words)))].append(words)
    refused = f"; not: {', '.join(takes[False])}" if takes[False] else ""
    return Decision(Ended.ANSWERED, f"supported: {', '.join(takes[True])}{refused}", symbol)


_ASKS: Mapping[str, Callable[[Any, str], Decision]] = {"order": _order, "dispatch": _dispatch, "support": _support}


def _operator(name: str) -> Any:
    """The operator, once every module that registers an implementation is imported."""
    operators = find("vllm.ir.op", "IrOp")
    if operators is None:
        raise Missing("IR operators (vllm.ir)")
    from vllm.platforms import current_platform

    current_platform.import_ir_kernels()
    if name not in operators.registry:
        raise Missing(f"IR operator {name}")
    return operators.registry[name]


def _ranking(operator: Any, run: str) -> list[str]:
    """What a run's configuration gives the operator, the platform's own order included."""
    order = getattr(configured(run).kernel_config.ir_op_priority, operator.name, None)
    if order is None:
        raise Missing(f"priority of IR operator {operator.name}")
    return list(order)


def _ranked_by() -> str:
    from vllm.platforms import current_platform

    return str(getattr(type(current_platform).get_default_ir_op_priority, "__qualname__", ""))


def _candidates(operator: Any, order: list[str], arguments: Mapping[str, Any] | None = None) -> tuple[Candidate, ...]:
    """The ranking; with arguments, who was passed over for them: without words, so the predicate's name stands here."""
    found: list[Candidate] = []
    for name in order:
        implementation = operator.impls.get(name)
        if any(candidate.accepted for candidate in found):
            found.append(Candidate(name=name, accepted=None))
        elif implementation is None or not implementation.supported:
            found.append(Candidate(name=name, accepted=False, reason="supported=False", category=Category.PLATFORM))
        elif arguments is not None and not implementation.supports_args(**arguments):
            found.append(Candidate(name=name, accepted=False, reason="supports_args=False", category=Category.SHAPE))
        else:
            found.append(Candidate(name=name, accepted=True))
    return tuple(found)


def _arguments(operator: Any, words: str) -> Mapping[str, Any]:
    """Small CPU tensors for the operator's own parameters."""
    import torch

    wanted = {"shape": (4, 128), "dtype": "bfloat16", "step": 1, "variance_size": None, **_INPUTS[words]}
    x = torch.zeros(wanted["shape"], dtype=getattr(torch, wanted["dtype"]))[..., :: wanted["step"], :]
    of_weight = wanted.get("weight_dtype", wanted["dtype"])
    every = {
        "x": x,
        "x_residual": x,
        "weight": None if of_weight is None else torch.ones(x.shape[-1], dtype=getattr(torch, of_weight)),
        "epsilon": 1e-6,
        "variance_size": wanted["variance_size"],
        "std_multiplier": 1.0,
        "approximate": "tanh",
    }
    return accepted_arguments(operator.impls["native"].impl_fn, every)
