"""Unquantized GEMM: which operator a weight [N, K] reaches for each number of tokens M.

In: a cell of surface ``unquantized_gemm``; the shape is the layer's, or ``n`` and ``k`` of the scheme. Out: where the
answer changes with M (``1:wvSplitK 6:linear``), with one question a number of tokens as evidence. vLLM's own layer
method is called on tensors without memory. Only what would run on the device is a recorder: AITER's GEMMs (that AITER
has the two functions is taken for granted, as every AITER of these releases does) and the batch-invariant kernel. A
recorder takes and gives what the function does: a call that it cannot serve, or a result of another dtype or shape than
the layer's, is a finding.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from harness.adapters.decision import Decision, find, raised, unsupported
from harness.adapters.device_tensors import Device
from harness.adapters.operators import presence
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence, Finding

TOKENS = (1, 2, 4, 5, 6, 8, 9, 10, 16, 17, 32, 64, 128, 129, 256, 2048, 2049)
"""Numbers of tokens that are asked about: both sides of every bound in vLLM 0.20 to 0.33, and batches between."""

_METHODS: Mapping[bool, tuple[str, str]] = {
    False: ("vllm.model_executor.layers.linear", "UnquantizedLinearMethod"),
    True: ("vllm.model_executor.layers.vocab_parallel_embedding", "UnquantizedEmbeddingMethod"),
}
_UTILS = "vllm.model_executor.layers.utils"
_INVARIANT = "linear_batch_invariant"


def decide_unquantized(cell: Cell) -> Decision:
    """Ask vLLM what each number of tokens reaches."""
    kind = find(*_METHODS[bool(cell.kernel.scheme.get("head", False))])
    dispatch = find(_UTILS, "dispatch_unquantized_gemm")
    if kind is None or dispatch is None:
        return unsupported("dispatch_unquantized_gemm")
    device = Device()
    reached: dict[int, str] = {}
    faults: list[str] = []
    try:
        method, layer = kind(), _layer(cell, device)
        method.process_weights_after_loading(layer)
        with _recorders(device, faults):
            for tokens in _tokens(cell):
                device.reached.clear()
                activation = _activation(cell, device, tokens)
                result = method.apply(layer, activation, layer.bias)
                reached[tokens] = "+".join(dict.fromkeys(device.reached)) or "nothing"
                faults += _faults(cell, activation, result)
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        failed = raised(error)
        return Decision(Ended.RAISED, symbol=failed.symbol, detail=failed.detail, evidence=_evidence(reached))
    symbol = _symbol(dispatch())
    findings = tuple(Finding(rule="gemm_contract", symbol=symbol, message=fault) for fault in dict.fromkeys(faults))
    return Decision(Ended.ANSWERED, _changes(reached), symbol, evidence=_evidence(reached), findings=findings)


def _faults(cell: Cell, activation: Any, result: Any) -> list[str]:
    """What is wrong with the result of a layer, in words."""
    shape = (*activation.shape[:-1], _shape(cell)[0])
    faults = []
    if result.dtype != activation.dtype:
        faults.append(f"the layer gives {result.dtype} for activations of {activation.dtype}")
    if tuple(result.shape) != shape:
        faults.append(f"the layer gives {tuple(result.shape)} for activations of {tuple(activation.shape)}")
    return faults


def _tokens(cell: Cell) -> tuple[int, ...]:
    """The numbers of tokens to ask about: the scheme's one, or all."""
    only = cell.kernel.scheme.get("tokens")
    return TOKENS if only is None else (int(only),)


def _layer(cell: Cell, device: Device) -> Any:
    """What vLLM's method sees of a layer: weight [N, K] and bias [N]."""
    scheme = cell.kernel.scheme
    dtype = str(scheme["dtype"])
    n, k = _shape(cell)
    layouts: Mapping[str, Callable[[], Any]] = {
        "contiguous": lambda: device.tensor(n, k, dtype=dtype),
        "transposed": lambda: device.tensor(k, n, dtype=dtype).t(),
        "strided": lambda: device.tensor(n, k + 64, dtype=dtype)[:, :k],
    }
    bias = device.tensor(n, dtype=dtype) if scheme.get("bias", False) else None
    return types.SimpleNamespace(weight=layouts[str(scheme.get("layout", "contiguous"))](), bias=bias)


def _activation(cell: Cell, device: Device, tokens: int) -> Any:
    """Activations [M, K], or [1, M, K] where the scheme is batched."""
    shape = (1, tokens) if cell.kernel.scheme.get("batched", False) else (tokens,)
    return device.tensor(*shape, _shape(cell)[1], dtype=str(cell.kernel.scheme["dtype"]))


def _shape(cell: Cell) -> tuple[int, int]:
    if cell.layer is not None:
        return cell.layer.n, cell.layer.k
    return int(cell.kernel.scheme["n"]), int(cell.kernel.scheme["k"])


def _symbol(function: Any) -> str:
    """The function that decides: what vLLM's dispatch gives for the platform, or the body of its custom operator."""
    name = str(getattr(getattr(function, "func", function), "__name__", function))
    return f"{name}_impl" if find(_UTILS, f"{name}_impl") is not None else name


def _changes(reached: Mapping[int, str]) -> str:
    """``1:wvSplitK 6:linear``: from which number of tokens on, what; the bare name where there is one answer only."""
    runs = [(next(group)[0], _short(name)) for name, group in itertools.groupby(reached.items(), lambda item: item[1])]
    return runs[0][1] if len(runs) == 1 else " ".join(f"{tokens}:{name}" for tokens, name in runs)


def _short(name: str) -> str:
    return name if "+" in name else name.rpartition("::")[2].removeprefix("torch.nn.functional.")


def _evidence(reached: Mapping[int, str]) -> tuple[Evidence, ...]:
    """What each number of tokens reaches, and whether the build has it."""
    asked = [Evidence(question=f"operator for M={tokens}", answer=name) for tokens, name in reached.items()]
    operators = dict.fromkeys(name for names in reached.values() for name in names.split("+") if "::" in name)
    return (*asked, *(operator.evidence for operator in presence(operators)))


@contextmanager
def _recorders(device: Device, faults: list[str]) -> Iterator[None]:
    """Let the device functions that no operator stands for be noted instead of run."""
    entries: Mapping[str, tuple[str, Any]] = {
        "aiter.ops.triton.gemm_a16w16": ("gemm_a16w16", _gemm_a16w16(device, faults)),
        "aiter.tuned_gemm": ("tgemm", types.SimpleNamespace(mm=_like_the_layer(device, "aiter.tgemm.mm"))),
    }
    with ExitStack() as stack:
        for module in _modules_with(_INVARIANT):
            stack.enter_context(mock.patch.object(module, _INVARIANT, _like_the_layer(device, _INVARIANT)))
        for name, (attribute, value) in entries.items():
            _stand_in(stack, name, attribute, value)
        yield


def _stand_in(stack: ExitStack, name: str, attribute: str, value: Any) -> None:
    """Put a recorder where AITER has the function; a real AITER must have it by itself."""
    aiter = importlib.util.find_spec("aiter")
    if aiter is None:
        return
    if aiter.origin is None:  # the stand-in of a simulated target
        module = types.ModuleType(name)
        setattr(module, attribute, value)
        stack.enter_context(mock.patch.dict(sys.modules, {name: module}))
    elif find(name, attribute) is not None:
        stack.enter_context(mock.patch.object(importlib.import_module(name), attribute, value))


def _modules_with(attribute: str) -> list[types.ModuleType]:
    """The subject's modules that have the function, where they import it at their top too."""
    return [
        module for name, module in list(sys.modules.items()) if name.startswith("vllm.") and attribute in vars(module)
    ]


def _like_the_layer(device: Device, name: str) -> Callable[..., Any]:
    """A GEMM of any activations that gives their dtype."""

    def gemm(x: Any, weight: Any, *_: object, **__: object) -> Any:
        device.note(name)
        return x.new_empty((*x.shape[:-1], weight.shape[0]))

    return gemm


def _gemm_a16w16(device: Device, faults: list[str]) -> Callable[..., Any]:
    """AITER's Triton GEMM: a matrix alone, and bfloat16 unless ``dtype`` says otherwise.

    Source: ``M, K = x.shape`` and ``dtype=torch.bfloat16`` of ``gemm_a16w16``, amd-aiter 0.1.7
    (``aiter/ops/triton/gemm_a16w16.py``) and after (``aiter/ops/triton/gemm/basic/gemm_a16w16.py``).
    """
    import torch

    def gemm(x: Any, weight: Any, _bias: Any = None, dtype: Any = torch.bfloat16, *_: object, **__: object) -> Any:
        device.note("aiter.gemm_a16w16")
        if x.dim() != 2:
            faults.append("aiter.gemm_a16w16 takes a matrix [M, K], and is given activations of more dimensions")
        return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=dtype)

    return gemm
