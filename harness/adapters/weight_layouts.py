"""Layouts of processed weights: what vLLM's own ``process_weights_after_loading`` makes of small parameters.

In: a cell of surface ``weights``. Out: the layout that results, checked element by element against the numbers that the
checkpoint holds, or whether a shuffled weight still says so. Expectations are computed from indices here and share no
code with vLLM.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from harness.adapters.decision import Decision, find, raised, unsupported
from harness.adapters.watch import accepted_arguments
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence, Finding

_KERNELS = "vllm.model_executor.kernels.linear"
_PARAMETER = "vllm.model_executor.parameter"
_BITS, _WORD = 4, 8
"""Bits of a number, and numbers in a word of 32 bits."""
_SHIFTS = tuple(_BITS * place for place in range(_WORD))
_EXLLAMA = tuple(place // 2 * _BITS + place % 2 * 16 for place in range(_WORD))
"""Where in a word each of eight neighbours begins: in order, and with even ones in the lower half."""

_Read = Callable[[Any], Any]


@dataclass(frozen=True)
class _Format:
    """How a kernel reads its operands: stored tensor -> weights [N, K], scales [N, K/G], zero points [N, K/G]."""

    weight: _Read
    weight_scale: _Read
    weight_zero_point: _Read


def decide_w4a16(cell: Cell) -> Decision:
    """Process the weights of one checkpoint with the kernel that vLLM chooses for them."""
    import torch

    scheme = cell.kernel.scheme
    n, k, group = int(scheme["n"]), int(scheme["k"]), int(scheme["group_size"])
    choose, config_type = (find(_KERNELS, name) for name in ("choose_mp_linear_kernel", "MPLinearLayerConfig"))
    if choose is None or config_type is None:
        return unsupported(f"{_KERNELS}.choose_mp_linear_kernel")
    types = importlib.import_module("vllm.scalar_type").scalar_types
    arguments = {
        "full_weight_shape": (k, n),
        "partition_weight_shape": (k, n),
        "weight_type": types.uint4,
        "act_type": torch.float16,
        "group_size": group,
        "zero_points": True,
        "has_g_idx": False,  # vllm<0.30: asked
    }
    config = config_type(**accepted_arguments(config_type, arguments))
    numbers = _numbers(n, k, group)
    try:
        kind = choose(config)
    except ValueError as error:
        return Decision(Ended.REFUSED, symbol="choose_mp_linear_kernel", detail=str(error).strip())
    try:
        layer = _checkpoint(str(scheme["layout"]), numbers)
        kernel = kind(config, "weight", "weight_scale", "weight_zero_point")
        kernel.process_weights_after_loading(layer)
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    return _judged(kind.__name__, layer, numbers)


def _numbers(n: int, k: int, group: int) -> Mapping[str, Any]:
    """Weights [N, K] and zero points [N, K/G] of four bits, and scales [N, K/G], each told from its neighbours."""
    import torch

    generator = torch.Generator().manual_seed(0)
    return {
        "weight": torch.randint(0, 1 << _BITS, (n, k), generator=generator, dtype=torch.int32),
        "weight_scale": torch.rand(n, k // group, generator=generator, dtype=torch.float32).half(),
        "weight_zero_point": torch.randint(0, 1 << _BITS, (n, k // group), generator=generator, dtype=torch.int32),
    }


def _checkpoint(layout: str, numbers: Mapping[str, Any]) -> Any:
    """A layer with the parameters that vLLM creates for a checkpoint of this layout, loaded.

    Both pack the weight along K. ``compressed_tensors``: weight [N, K/8], scales [N, K/G], zero points [N/8, K/G].
    ``gptq``: weight [K/8, N], scales [K/G, N], zero points [K/G, N/8]. Source: ``create_weights`` of
    CompressedTensorsWNA16 and of the GPTQ method, and the format's own definition.
    """
    import torch

    parameters = importlib.import_module(_PARAMETER)
    rows = 0 if layout == "compressed_tensors" else 1  # the dimension of N

    def turn(values: Any) -> Any:
        return values if rows == 0 else values.t().contiguous()

    layer = torch.nn.Module()
    loaded = {"weight_loader": lambda *_args, **_options: None, "input_dim": 1 - rows, "output_dim": rows}
    packed = {**loaded, "packed_factor": _WORD}
    weight = turn(_pack(numbers["weight"], 1))
    zeros = turn(_pack(numbers["weight_zero_point"], 0))
    made = {
        "weight": parameters.PackedvLLMParameter(data=weight, packed_dim=1 - rows, **packed),
        "weight_scale": parameters.GroupQuantScaleParameter(data=turn(numbers["weight_scale"]), **loaded),
        "weight_zero_point": parameters.PackedvLLMParameter(data=zeros, packed_dim=rows, **packed),
    }
    for name, parameter in made.items():
        layer.register_parameter(name, parameter)
    return layer


def _pack(numbers: Any, dimension: int) -> Any:
    """Eight neighbours along ``dimension`` in one word, the first in its lowest bits."""
    import torch

    words = numbers.to(torch.int64).unflatten(dimension, (-1, _WORD)).movedim(dimension + 1, -1)
    packed = sum(words[..., place] << shift for place, shift in enumerate(_SHIFTS))
    return packed.to(torch.int32)


def _unpack(words: Any, shifts: Sequence[int] = _SHIFTS) -> Any:
    """[R, C] words to [R, 8 C] numbers, each from the bit where its turn in ``shifts`` begins."""
    import torch

    turns = torch.tensor(shifts, dtype=torch.int64)
    return ((words.to(torch.int64).unsqueeze(-1) >> turns) & ((1 << _BITS) - 1)).flatten(-2)


def _as_words(stored: Any) -> Any:
    import torch

    return stored.contiguous().view(torch.int32)


_FORMATS: Mapping[str, _Format] = {
    # weights [K, N/8], scales [K/G, N], zero points [K/G, N/8], eight neighbours of N in a word. Source: the docstring
    # of its process_weights_after_loading
    "TritonW4A16LinearKernel": _Format(lambda x: _unpack(x).t(), lambda x: x.t(), lambda x: _unpack(x).t()),
    # weights [N, K/8] as bytes, eight neighbours of K in a word in ExLlama's order; scales [N, K/G]; zero points
    # [N/8, K/G]. Source: the comments of _triton_w4a16_skinny_fmt_kernel and pack_int4_exllama_shuffle
    "RDNAHybridW4A16LinearKernel": _Format(
        lambda x: _unpack(_as_words(x), _EXLLAMA),
        lambda x: x,
        lambda x: x if x.is_floating_point() else _unpack(x.t()).t(),  # vllm<0.30: unpacked, [N, K/G]
    ),
}
"""Formats that are known, by kernel."""


def _judged(kernel: str, layer: Any, numbers: Mapping[str, Any]) -> Decision:
    """Hold the processed parameters against the numbers of the checkpoint, where the kernel's format is known."""
    processed = {name: getattr(layer, name).data for name in numbers}
    words = [f"{name} {str(p.dtype).removeprefix('torch.')} {list(p.shape)}" for name, p in processed.items()]
    symbol = f"{kernel}.process_weights_after_loading"
    form = _FORMATS.get(kernel)
    if form is None:
        return Decision(Ended.ANSWERED, f"{kernel}: {'; '.join(words)}", symbol)
    evidence, findings = [], []
    for name, right in numbers.items():
        fault = _compared(getattr(form, name), processed[name], right)
        evidence.append(Evidence(question=f"{name} against the checkpoint's numbers", answer=fault or "equal"))
        if fault:
            findings.append(Finding(rule="layout", symbol=symbol, message=f"{kernel} gets {name} wrong: {fault}"))
    state = "wrong layout" if findings else "right layout"
    chosen = f"{kernel}: {'; '.join(words)}; {state}"
    return Decision(Ended.ANSWERED, chosen, symbol, evidence=tuple(evidence), findings=tuple(findings))


def _compared(read: _Read, stored: Any, right: Any) -> str:
    """What is wrong with a processed parameter, in words; empty where every element is where the kernel reads it."""
    found = read(stored)
    if found.shape != right.shape:
        return f"the kernel reads {list(found.shape)} numbers, the checkpoint holds {list(right.shape)}"
    wrong = int((found != right).sum())
    if not wrong:
        return ""
    turned = stored.shape[0] == stored.shape[1] and bool((read(stored.t()) == right).all())
    return f"{wrong} of {right.numel()} numbers are not where the kernel reads them" + (
        " (the words are transposed)" if turned else ""
    )


# ---- shuffled weights of experts

_METHOD = "vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method"
_ORACLE = "vllm.model_executor.layers.fused_moe.oracle.unquantized"


def decide_shuffled() -> Decision:
    """Set up unquantised experts for AITER with vLLM's own method: shuffled weights must still say that they are.

    AITER's fused MoE picks its kernel by the tag ``is_shuffled`` of the weights that it is given.
    """
    import torch

    method_type, backend = find(_METHOD, "UnquantizedFusedMoEMethod"), find(_ORACLE, "UnquantizedMoeBackend")
    if method_type is None or not hasattr(backend, "AITER") or not hasattr(method_type, "_setup_kernel"):
        return unsupported(f"AITER backend of {_METHOD}")
    generator = torch.Generator().manual_seed(0)
    weights = {
        "w13_weight": torch.randn(2, 128, 64, generator=generator, dtype=torch.float32),
        "w2_weight": torch.randn(2, 64, 64, generator=generator, dtype=torch.float32),
    }
    layer = torch.nn.Module()
    for name, value in weights.items():
        layer.register_parameter(name, torch.nn.Parameter(value.bfloat16(), requires_grad=False))
    before = {name: getattr(layer, name).data.clone() for name in weights}
    method = _bare_method(method_type, backend.AITER, layer)
    try:
        with _without_kernel(method_type):
            method._setup_kernel(layer=layer, w13=layer.w13_weight, w2=layer.w2_weight)
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    return _tagged(layer, before)


def _bare_method(kind: Any, backend: object, layer: Any) -> Any:
    """The method as its constructor leaves it once AITER is chosen, for the experts of ``layer``."""
    import torch

    method = kind.__new__(kind)
    torch.nn.Module.__init__(method)
    gated = SimpleNamespace(
        is_act_and_mul=True,
        has_bias=False,
        intermediate_size_per_partition=64,
        intermediate_size_per_partition_unpadded=64,
        hidden_dim=64,
        hidden_dim_unpadded=64,
    )
    vars(method).update(unquantized_backend=backend, experts_cls=object, moe_kernel=None, moe_quant_config=None)
    vars(method)["moe"] = layer.moe_config = gated
    for name in ("_expert_routing_tables", "_maybe_init_expert_routing_tables"):
        setattr(layer, name, lambda: None)
    layer.shared_experts = None
    return method


@contextmanager
def _without_kernel(kind: Any) -> Iterator[None]:
    """No kernel object is built at the end: that is the business of surface ``moe``, and of a device."""
    module = importlib.import_module(kind.__module__)
    real = module.make_unquantized_moe_kernel
    experts = SimpleNamespace(process_weights_after_loading=lambda _layer: None)
    vars(module)["make_unquantized_moe_kernel"] = lambda **_options: SimpleNamespace(fused_experts=experts)
    try:
        yield
    finally:
        vars(module)["make_unquantized_moe_kernel"] = real


def _tagged(layer: Any, before: Mapping[str, Any]) -> Decision:
    symbol = "UnquantizedFusedMoEMethod._setup_kernel"
    states, findings = [], []
    for name, plain in before.items():
        parameter = getattr(layer, name)
        moved, tag = not bool((parameter.data == plain).all()), bool(getattr(parameter, "is_shuffled", False))
        states.append(f"{name} {'shuffled' if moved else 'plain'}, is_shuffled={tag}")
        if moved != tag:
            what = "is shuffled and does not say so" if moved else "says that it is shuffled and is not"
            message = f"{name} {what}: AITER reads the tag is_shuffled and runs the kernel for the other layout"
            findings.append(Finding(rule="layout", symbol=symbol, message=message))
    return Decision(Ended.ANSWERED, "; ".join(states), symbol, findings=tuple(findings))
