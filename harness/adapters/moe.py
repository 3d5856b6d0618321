"""MoE layers: which backend vLLM's oracles pick for a quantization scheme and a layer, and why not the others.

In: a cell of surface ``moe``. Out: ``BACKEND/ExpertsClass``, vLLM's own order of backends with its own words for each
one passed over, and what the chosen class itself says of the exact request. It must not judge that answer.
"""

from __future__ import annotations

import dis
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from harness.adapters.categories import categorise
from harness.adapters.decision import Decision, Missing, find, raised, unsupported
from harness.adapters.gates import gate_codes, gate_evidence
from harness.adapters.moe_config import KERNEL, Scheme, moe_config, quant_key
from harness.adapters.watch import Returned, Watch, accepted_arguments
from harness.model.cell import Cell
from harness.model.record import Candidate, Ended, Evidence

_ORACLES = "vllm.model_executor.layers.fused_moe.oracle"

_SELECTORS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "unquantized": ("unquantized", ("select_unquantized_moe_backend",)),
    "fp8": ("fp8", ("select_fp8_moe_backend",)),
    "int8": ("int8", ("select_int8_moe_backend",)),
    # vllm<0.22: select_mxfp4_moe_backend was the one of DeepSeek-V4, beside one of its own for gpt-oss
    "mxfp4": ("mxfp4", ("select_gpt_oss_mxfp4_moe_backend", "select_mxfp4_moe_backend")),
    "mxfp4_deepseek_v4": ("mxfp4", ("select_deepseek_v4_mxfp4_moe_backend", "select_mxfp4_moe_backend")),
    "mxfp8": ("mxfp8", ("select_mxfp8_moe_backend",)),
    "nvfp4": ("nvfp4", ("select_nvfp4_moe_backend",)),
    "wna16": ("int_wna16", ("select_wna16_moe_backend",)),
    "w4a8": ("w4a8", ("select_w4a8_moe_backend",)),
    "w4a8_int8": ("w4a8_int8", ("select_w4a8_int8_moe_backend",)),
}
"""Oracle of the scheme -> module below ``oracle`` and its selector, the first that the release has."""

_CHECKPOINTS: Mapping[str, tuple[str, str]] = {
    "gptq": ("auto_gptq", "AutoGPTQConfig"),
    "awq": ("auto_awq", "AutoAWQConfig"),
    "moe_wna16": ("moe_wna16", "MoeWNA16Config"),
}
"""Checkpoint format of a wna16 scheme -> module and class of vLLM's quantization configuration."""

_ASKED, _COMPATIBLE, _WARNED = "is_supported_config", "_backend_incompatibility_reason", "warning_once"
_LISTS = ("AVAILABLE_BACKENDS", "priority_backends", "backends")
"""Names under which a selector keeps the backends it walks, in its order."""

Selector = Callable[..., Any]


@dataclass(frozen=True)
class MoeRequest:
    """One question to an oracle. The keys are those of the checkpoint, whatever the selector takes."""

    selector: Selector
    arguments: Mapping[str, Any]
    config: Any
    weight: Any
    activation: Any


def decide_moe(cell: Cell) -> Decision:
    """Ask vLLM which backend and experts class a MoE layer gets."""
    try:
        request = moe_request(cell.kernel.scheme)
    except Missing as missing:
        return unsupported(str(missing))
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return _ended(error, ())
    named = frozenset({_ASKED, _COMPATIBLE, _WARNED, request.selector.__name__})
    with Watch(gate_codes(), named) as watch:
        try:
            answer = request.selector(**request.arguments)
        except Exception as error:  # the subject's own fault, whatever its type, is the observation
            return replace(_ended(error, _candidates(watch, request)), evidence=_heard(watch))
    backend, experts = answer if isinstance(answer, tuple) else (answer, None)  # vllm<0.20: unquantized, no class
    if experts is None:
        return Decision(
            Ended.ANSWERED,
            backend.name,
            request.selector.__name__,
            candidates=_candidates(watch, request),
            evidence=_heard(watch),
        )
    return Decision(
        Ended.ANSWERED,
        f"{backend.name}/{experts.__name__}",
        request.selector.__name__,
        candidates=_candidates(watch, request),
        evidence=(*_own_answers(experts, request, watch), *_heard(watch)),
    )


# ---- the request


def moe_request(scheme: Scheme) -> MoeRequest:
    """What the scheme asks of its oracle.

    Raises:
        Missing: the release has no such oracle, key or option of a layer.
    """
    oracle = str(scheme["oracle"])
    selector = _selector(oracle)
    weight, activation = (quant_key(_text(scheme.get(role))) for role in ("weight", "activation"))
    config = moe_config(scheme)
    offered = {
        "config": config,
        "moe_config": config,
        "weight_key": weight,
        "activation_key": activation,
        "use_ep": config.use_ep,  # vllm<0.20: select_unquantized_moe_backend asks for both
        "use_dp": config.dp_size > 1,
        "allow_vllm_cutlass": bool(scheme.get("cutlass", False)),
        "weight_bits": scheme.get("weight_bits", 4),  # vllm<0.24: select_wna16_moe_backend asks
        **(_checkpoint(scheme) if oracle == "wna16" else {}),
    }
    arguments = accepted_arguments(selector, offered)
    if oracle == "mxfp4" and activation is not None and "activation_key" not in arguments:
        raise Missing(f"activation key in {selector.__name__}")  # vllm<0.22: W4A16 alone
    return MoeRequest(selector, arguments, config, weight, activation)


def _selector(oracle: str) -> Selector:
    module, names = _SELECTORS[oracle]
    path = f"{_ORACLES}.{module}"
    if oracle == "mxfp4_deepseek_v4" and find(path, names[0]) is None and find(path, _SELECTORS["mxfp4"][1][0]) is None:
        raise Missing(f"{path}.{names[0]}")
    for name in names:
        selector: Selector | None = find(path, name)
        if selector is not None:
            return selector
    raise Missing(f"{path}.{names[-1]}")


def _checkpoint(scheme: Scheme) -> dict[str, Any]:
    """What a wna16 selector asks of the checkpoint, as vLLM's own quantization methods tell it."""
    form = str(scheme.get("checkpoint", "compressed_tensors"))
    group, zero_points, bits = int(scheme["group_size"]), bool(scheme["zero_points"]), int(scheme.get("weight_bits", 4))
    told = {
        "may_have_zp": zero_points,
        "may_have_bias": form in ("gptq", "awq"),
        "allow_tile_padding": form != "moe_wna16",
    }
    return {**told, "quant_config": quant_config(form, bits, group, zero_points)}


def quant_config(form: str, bits: int, group: int, zero_points: bool, *, ordered: bool = False) -> Any:
    """The checkpoint as vLLM's own classes describe it.

    Args:
        form: compressed_tensors, gptq, awq or moe_wna16.
        bits: of a weight.
        group: rows of a weight that share a scale; -1 for all of them.
        zero_points: whether weights are asymmetric.
        ordered: whether rows are ordered by their activations.

    Raises:
        Missing: the release has no such class.
    """
    if form == "compressed_tensors":
        arguments = importlib.import_module("compressed_tensors.quantization").QuantizationArgs
        strategy = {"strategy": "channel"} if group == -1 else {"strategy": "group", "group_size": group}
        order = {"actorder": "group"} if ordered else {}
        return arguments(num_bits=bits, type="int", symmetric=not zero_points, **strategy, **order)
    module, name = _CHECKPOINTS[form]
    cls = find(f"vllm.model_executor.layers.quantization.{module}", name)
    if cls is None:
        raise Missing(f"quantization configuration {name}")  # vllm<0.28: the selector asks for none
    file = {"quant_method": "gptq" if form != "awq" else "awq", "bits": bits, "group_size": group, "desc_act": ordered}
    return cls.from_config({**file, "sym": not zero_points, "zero_point": zero_points})


def _text(value: object) -> str | None:
    return None if value is None else str(value)


# ---- refusals


def _ended(error: BaseException, candidates: tuple[Candidate, ...]) -> Decision:
    """An error that vLLM's MoE code raises on purpose, with words, is its refusal; any other is not."""
    what = raised(error, candidates)
    if not (isinstance(error, ValueError | NotImplementedError) and str(error).strip() and _on_purpose(error)):
        return what
    return replace(what, ended=Ended.REFUSED, detail=str(error).strip())


def _on_purpose(error: BaseException) -> bool:
    """Whether a ``raise`` of an oracle or of ``FusedMoEConfig`` made the error, and not an operation that failed."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    code = traceback.tb_frame.f_code
    instructions = {step.offset: step.opname for step in dis.get_instructions(code)}
    ours = "/fused_moe/oracle/" in code.co_filename or code.co_filename.endswith("/fused_moe/config.py")
    return ours and instructions.get(traceback.tb_lasti) == "RAISE_VARARGS"


# ---- what was seen on the way


def _candidates(watch: Watch, request: MoeRequest) -> tuple[Candidate, ...]:
    """The backends in the order of vLLM's questions, and then those of its list that it did not come to."""
    asked = tuple(_asked(watch))
    names = {candidate.name.partition("/")[0] for candidate in asked}
    rest = tuple(Candidate(name=name, accepted=None) for name in _offered(watch, request) if name not in names)
    return tuple(dict.fromkeys(asked)) + tuple(dict.fromkeys(rest))


def _asked(watch: Watch) -> Iterator[Candidate]:
    for returned in watch.returns:
        if returned.name == _COMPATIBLE and isinstance(returned.value, str):
            yield _candidate(returned.variables["backend"].name, False, returned.value)
        if returned.name != _ASKED or returned.caller == _ASKED or not isinstance(returned.value, tuple):
            continue
        accepted, reason = returned.value
        yield _candidate(_name(returned), bool(accepted), str(reason or ""))


def _name(returned: Returned) -> str:
    """``BACKEND/ExpertsClass``, or the class alone where the selector asks it apart from its backends."""
    backend = returned.surroundings.get("backend")
    experts = str(returned.variables["cls"].__name__)
    return f"{backend.name}/{experts}" if isinstance(backend, Enum) else experts


def _candidate(name: str, accepted: bool, reason: str) -> Candidate:
    return Candidate(
        name=name,
        accepted=accepted,
        reason="" if accepted else reason,
        category=None if accepted else categorise(reason),
    )


def _offered(watch: Watch, request: MoeRequest) -> tuple[str, ...]:
    """The selector's own list, as it stood when it returned."""
    for returned in watch.returns:
        if returned.name == request.selector.__name__:
            lists = (returned.variables.get(name) for name in _LISTS)
            return next((tuple(backend.name for backend in found) for found in lists if found), ())
    return ()


def _own_answers(experts: Any, request: MoeRequest, watch: Watch) -> tuple[Evidence, ...]:
    """What the chosen class says of the exact request, and whether it routes by itself.

    Where the checkpoint names no activation the backend brings its own, so the class is asked as the oracle did.
    """
    last = _last_asked(experts, watch)
    formats = importlib.import_module(KERNEL).FusedMoEActivationFormat
    batched = request.config.moe_parallel_config.use_batched_activation_format
    shape = last.get("activation_format", formats.BatchedExperts if batched else formats.Standard)
    weight = last.get("weight_key") if request.weight is None else request.weight
    activation = last.get("activation_key") if request.activation is None else request.activation
    try:
        accepted, reason = experts.is_supported_config(experts, request.config, weight, activation, shape)
        answer = f"{bool(accepted)}" + (f": {reason}" if reason else "")
    except Exception as error:  # the class cannot answer, which is its answer
        answer = raised(error).detail
    name = experts.__name__
    return (
        Evidence(question=f"{name}.{_ASKED}", answer=answer),
        Evidence(question=f"{name}.is_monolithic", answer=str(experts.is_monolithic())),
    )


def _last_asked(experts: Any, watch: Watch) -> Mapping[str, Any]:
    """With what the oracle asked the class last; empty where it took it unasked."""
    asked = (one.variables for one in reversed(watch.returns) if one.name == _ASKED)
    return next((variables for variables in asked if variables.get("cls") is experts), {})


def _heard(watch: Watch) -> tuple[Evidence, ...]:
    """The AITER gates that were asked, and what vLLM warned of, once each."""
    gates = frozenset(gate_codes().values())
    heard = (
        _warning(returned) if returned.name == _WARNED else gate_evidence(returned)
        for returned in watch.returns
        if returned.name == _WARNED or returned.name in gates
    )
    return tuple(dict.fromkeys(heard))


def _warning(returned: Returned) -> Evidence:
    message, arguments = str(returned.variables["msg"]), returned.variables.get("args", ())
    return Evidence(question="vLLM warns", answer=message % tuple(arguments) if arguments else message)
