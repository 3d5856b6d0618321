"""Linear layers: which kernel vLLM picks for a quantization scheme and a weight [N, K], and why not the others.

In: a cell of surface ``linear`` or ``allowlist``. Out: the chosen kernel class, vLLM's own ordered candidates and its
own words for each one passed over, read from the selector's variables when it returns.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType
from typing import Any

from harness.adapters.categories import categorise
from harness.adapters.chains import fallback_chain
from harness.adapters.decision import Decision, Missing, find, raised, unsupported
from harness.adapters.gates import gate_codes, gate_evidence
from harness.adapters.operators import operators_of
from harness.adapters.rewriting import layout_evidence
from harness.adapters.watch import Returned, Watch, accepted_arguments, code_of
from harness.model.cell import Cell
from harness.model.record import Candidate, Ended, Evidence

_MODULE = "vllm.model_executor.kernels.linear"
_KEYS = "vllm.model_executor.layers.quantization.utils.quant_utils"

SELECTORS = (
    "choose_scaled_mm_linear_kernel",
    "choose_mp_linear_kernel",
    "init_mxfp8_linear_kernel",
    "init_mxfp4_linear_kernel",
    "init_mxfp6_linear_kernel",
    "init_nvfp4_linear_kernel",
)
"""The functions that walk a list of candidates. The other entry points call one of them."""

_FUSED = ("qkv", "gate_up")
"""Layers whose weight is several projections in one, by the names vLLM's models give them."""


def decide_linear(cell: Cell) -> Decision:
    """Ask vLLM which kernel a linear layer gets; with ``chain`` in the scheme, who would follow it."""
    return fallback_chain(lambda: _decide(cell)) if cell.kernel.scheme.get("chain") else _decide(cell)


def _decide(cell: Cell) -> Decision:
    if find(_MODULE, "__name__") is None:  # vllm<0.17: its kernels are elsewhere
        return unsupported(f"module {_MODULE}")
    try:
        entry, arguments = REQUESTS[str(cell.kernel.scheme["entry"])](cell)
    except Missing as missing:
        return unsupported(str(missing))
    linear = importlib.import_module(_MODULE)
    with Watch({**selector_codes(linear), **gate_codes()}) as watch:
        try:
            kernel = entry(**arguments)
        except ValueError as error:
            return _refused(error, walks_of(watch))
        except Exception as error:  # the subject's own fault, whatever its type, is the observation
            return raised(error, candidates_of(walks_of(watch), None))
    chosen = kernel if isinstance(kernel, type) else type(kernel)
    return Decision(
        Ended.ANSWERED,
        chosen.__name__,
        predicate_of(chosen),
        candidates=candidates_of(walks_of(watch), chosen.__name__),
        evidence=(
            *_evidence(watch, kernel),
            *(operator.evidence for operator in operators_of(chosen)),
            *layout_evidence(kernel),
        ),
    )


def decide_allowlist(cell: Cell) -> Decision:
    """Ask one kernel class whether it supports the device, with the capability number that vLLM's selector passes."""
    path, _, name = str(cell.kernel.scheme["symbol"]).partition(":")
    kernel = find(path, name)
    if kernel is None:
        return unsupported(f"kernel {path}.{name}")
    from vllm.platforms import current_platform

    capability = current_platform.get_device_capability()
    number = None if capability is None else capability[0] * 10 + capability[1]
    try:
        accepted, reason = kernel.is_supported(number)
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    answer = Candidate(
        name=name, accepted=bool(accepted), reason=reason or "", category=None if accepted else categorise(reason or "")
    )
    asked = Evidence(question=f"{name}.is_supported({number})", answer=str((accepted, reason)))
    return Decision(
        Ended.ANSWERED,
        "accepted" if accepted else "refused",
        predicate_of(kernel),
        reason or "",
        candidates=(answer,),
        evidence=(asked,),
    )


def predicate_of(kernel: type) -> str:
    """The method that says whether ``kernel`` supports the device, by the class that defines it."""
    method = getattr(kernel, "is_supported", None) or getattr(kernel, "can_implement", None)
    return getattr(method, "__qualname__", kernel.__name__)


@functools.cache
def selector_codes(linear: Any) -> Mapping[CodeType, str]:
    """The selectors that this release has, to be watched under their names."""
    found = ((code_of(getattr(linear, name)), name) for name in SELECTORS if hasattr(linear, name))
    return {code: name for code, name in found if code is not None}


def walks_of(watch: Watch) -> list[Returned]:
    """The returns of selectors."""
    return [returned for returned in watch.returns if returned.name in SELECTORS]


def _refused(error: ValueError, walks: list[Returned]) -> Decision:
    """A ValueError that a selector itself raises is vLLM's refusal; one from anywhere deeper is not."""
    where = raised(error, candidates_of(walks, None))
    if where.symbol not in (*SELECTORS, "_batch_invariant_fp8_kernel"):
        return where
    return replace(where, ended=Ended.REFUSED, detail=str(error).strip())


def candidates_of(walks: list[Returned], chosen: str | None) -> tuple[Candidate, ...]:
    """Candidates of the last walk, in vLLM's order: passed over with its words, taken, or not reached."""
    if not walks:
        return ()
    variables = walks[-1].variables
    forced = variables.get("force_kernel")
    offered = variables.get("platform_kernels", variables.get("possible"))
    if forced is not None and (offered is None or chosen == forced.__name__):
        taken = chosen == forced.__name__
        reason = "" if taken else str(variables.get("reason") or variables.get("failure_reason") or "")
        # a forced kernel that is refused for another reason than its own predicates' was not asked
        return (_candidate(forced.__name__, taken or (False if reason else None), reason),)
    names = [kernel.__name__ for kernel in offered or ()]
    reasons = list(variables.get("failure_reason_list", variables.get("failure_reasons", ())))
    passed = [_candidate(name, False, reason.strip()) for name, reason in zip(names, reasons, strict=False)]
    rest = names[len(passed) :]
    return tuple(
        passed + [_candidate(name, True if name == chosen and i == 0 else None, "") for i, name in enumerate(rest)]
    )


def _candidate(name: str, accepted: bool | None, reason: str) -> Candidate:
    return Candidate(
        name=name, accepted=accepted, reason=reason, category=categorise(reason) if accepted is False else None
    )


def _evidence(watch: Watch, kernel: object) -> tuple[Evidence, ...]:
    """The gates that were asked, once each, and the variant that the kernel object will run."""
    asked = [gate_evidence(returned) for returned in watch.returns if returned.name not in SELECTORS]
    variant = getattr(kernel, "use_triton", None)
    if isinstance(variant, bool):
        asked.append(Evidence(question=f"{type(kernel).__name__}.use_triton", answer=str(variant)))
    return tuple(dict.fromkeys(asked))


# ---- requests: one function an entry point, (cell) -> (function, its arguments)

Request = tuple[Callable[..., Any], Mapping[str, Any]]


def _entry(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = find(_MODULE, name)
    if found is None:
        raise Missing(f"{_MODULE}.{name}")
    return found


def _quant_key(cell: Cell, role: str) -> Any:
    name = cell.kernel.scheme.get(role)
    if name is None:
        return None
    key = find(_KEYS, str(name))
    if key is None:
        raise Missing(f"quantization key {name}")
    return key


def _scaled(cell: Cell, function: str) -> Request:
    import torch

    entry = _entry(function)
    assert cell.layer is not None
    arguments = {
        "activation_quant_key": _quant_key(cell, "activation"),
        "weight_quant_key": _quant_key(cell, "weight"),
        "weight_shape": (cell.layer.n, cell.layer.k),
        "input_dtype": torch.bfloat16,
        "out_dtype": torch.bfloat16,
        "module_name": "gfxloop",
    }
    return entry, accepted_arguments(entry, arguments)


def _int8(cell: Cell) -> Request:
    entry = _entry("init_int8_linear_kernel")
    assert cell.layer is not None
    arguments = {
        "is_channelwise": cell.kernel.scheme["channelwise"],
        "is_static_input_scheme": cell.kernel.scheme["static"],
        "input_symmetric": cell.kernel.scheme["symmetric"],
        "module_name": "gfxloop",
        "is_fused_module": any(word in cell.layer.name for word in _FUSED),  # vllm<0.33: not asked
    }
    return entry, accepted_arguments(entry, arguments)


def _mixed_precision(cell: Cell) -> Request:
    import torch

    linear = importlib.import_module(_MODULE)
    types = importlib.import_module("vllm.scalar_type").scalar_types
    scheme, layer = cell.kernel.scheme, cell.layer
    assert layer is not None
    shape = (layer.k, layer.n)  # MPLinearLayerConfig is [K, N]
    arguments = {
        "full_weight_shape": shape,
        "partition_weight_shape": shape,
        "weight_type": getattr(types, str(scheme["weight_type"])),
        "act_type": getattr(torch, str(scheme["dtype"])),
        "group_size": scheme["group_size"],
        "zero_points": scheme["zero_points"],
        "has_g_idx": False,  # vllm<0.30: asked
    }
    config = linear.MPLinearLayerConfig
    return _entry("choose_mp_linear_kernel"), {"config": config(**accepted_arguments(config, arguments))}


def _microscaling(cell: Cell, function: str) -> Request:
    entry = _entry(function)
    assert cell.layer is not None
    arguments = {
        "activation_quant_key": _quant_key(cell, "activation"),
        "weight_quant_key": _quant_key(cell, "weight"),
        "weight_shape": (cell.layer.n, cell.layer.k),  # vllm<0.31: init_mxfp8_linear_kernel does not ask
        "use_a16": bool(cell.kernel.scheme.get("a16", False)),
        "bmm_batch_size": cell.kernel.scheme.get("bmm"),  # vllm<0.31: init_mxfp8_linear_kernel does not ask
    }
    return entry, accepted_arguments(entry, arguments)


REQUESTS: Mapping[str, Callable[[Cell], Request]] = {
    "fp8": lambda cell: _scaled(cell, "init_fp8_linear_kernel"),
    "wfp8a16": lambda cell: _scaled(cell, "init_wfp8_a16_linear_kernel"),
    "int8": _int8,
    "mp": _mixed_precision,
    "mxfp4": lambda cell: _microscaling(cell, "init_mxfp4_linear_kernel"),
    "mxfp6": lambda cell: _microscaling(cell, "init_mxfp6_linear_kernel"),
    "mxfp8": lambda cell: _microscaling(cell, "init_mxfp8_linear_kernel"),
    "nvfp4": lambda cell: _microscaling(cell, "init_nvfp4_linear_kernel"),
}
"""Entry -> the function of vLLM and its arguments for the cell's layer; raises ``Missing`` what a release lacks."""
