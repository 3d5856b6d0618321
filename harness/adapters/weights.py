"""Weights: the parameters that vLLM's layers create, how they are loaded, and what becomes of them after loading.

In: a cell of surface ``weights``. Out: every parameter with its class, dtype, shape and loader, as text. The layers are
vLLM's own, small, on the CPU, and alone in their tensor-parallel group. Nothing is computed with them. Whether a
parameter may require gradients is not judged here: invariant I16 reads the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.adapters.context import one_rank
from harness.adapters.decision import Decision, find, raised, unsupported
from harness.adapters.watch import accepted_arguments
from harness.adapters.weight_layouts import decide_shuffled, decide_w4a16
from harness.model.cell import Cell
from harness.model.record import Ended, Evidence

_LINEAR = "vllm.model_executor.layers.linear"
_VOCABULARY = "vllm.model_executor.layers.vocab_parallel_embedding"
_IN, _OUT = 512, 256
"""Sizes of a layer, in elements: whole blocks of 128, and whole groups of every scheme."""

_SHAPES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "ReplicatedLinear": (_LINEAR, {"input_size": _IN, "output_size": _OUT}),
    "ColumnParallelLinear": (_LINEAR, {"input_size": _IN, "output_size": _OUT}),
    "RowParallelLinear": (_LINEAR, {"input_size": _IN, "output_size": _OUT}),
    "MergedColumnParallelLinear": (_LINEAR, {"input_size": _IN, "output_sizes": [_OUT, _OUT]}),
    "QKVParallelLinear": (
        _LINEAR,
        {"hidden_size": _IN, "head_size": 64, "total_num_heads": 4, "total_num_kv_heads": 2},
    ),
    "VocabParallelEmbedding": (_VOCABULARY, {"num_embeddings": _OUT, "embedding_dim": _IN}),
    "ParallelLMHead": (_VOCABULARY, {"num_embeddings": _OUT, "embedding_dim": _IN}),
}
"""Layer class -> its module, and the arguments that give it a size."""

_PACKED = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "dynamic": False}
_MX = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "symmetric": True, "dynamic": False}


def _compressed(weights: Mapping[str, object], form: str) -> Mapping[str, object]:
    """``quantization_config`` of a checkpoint that llm-compressor wrote, weights only."""
    group = {"targets": ["Linear"], "weights": dict(weights), "input_activations": None, "format": form}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": [], "config_groups": {"group_0": group}}


_CONFIGS: Mapping[str, Mapping[str, object]] = {
    "fp8_block": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    "fp8_tensor": {"quant_method": "fp8", "activation_scheme": "static"},
    "w4a16": _compressed({**_PACKED, "symmetric": True}, "pack-quantized"),
    "w4a16_asym": _compressed({**_PACKED, "symmetric": False}, "pack-quantized"),
    "mxfp4": _compressed(_MX, "mxfp4-pack-quantized"),
}
"""What ``config.json`` of a quantised checkpoint says, by scheme."""


def decide_weights(cell: Cell) -> Decision:
    """Create the layer that the cell names and tell its parameters."""
    scheme = cell.kernel.scheme
    with one_rank(), _bfloat16():
        if scheme["entry"] == "w4a16":
            return decide_w4a16(cell)
        if scheme["entry"] == "shuffled":
            return decide_shuffled()
        return _decide_layer(str(scheme["layer"]), str(scheme.get("quant", "")), bool(scheme.get("processed")))


def _decide_layer(name: str, quant: str, processed: bool) -> Decision:
    module, arguments = _SHAPES[name]
    kind = find(module, name)
    if kind is None:
        return unsupported(f"layer {module}.{name}")
    try:
        layer = kind(**accepted_arguments(kind, {**arguments, "bias": not (quant or processed), **_quantised(quant)}))
        if processed:
            _fill(layer)
            layer.quant_method.process_weights_after_loading(layer)
    except (ValueError, NotImplementedError) as error:
        return Decision(Ended.REFUSED, symbol=raised(error).symbol, detail=str(error).strip() or raised(error).detail)
    except Exception as error:  # the subject's own fault, whatever its type, is the observation
        return raised(error)
    texts = [f"{key} {_text(value, processed)}" for key, value in layer.named_parameters()]
    method = type(getattr(layer, "quant_method", layer)).__name__
    return Decision(
        Ended.ANSWERED,
        "; ".join(texts),
        name,
        evidence=(Evidence(question=f"{name}.quant_method", answer=method),),
    )


def _quantised(quant: str) -> dict[str, object]:
    """The argument that quantises a layer, from what a checkpoint's ``config.json`` would say."""
    if not quant:
        return {}
    import copy

    from vllm.model_executor.layers.quantization import get_quantization_config

    config = copy.deepcopy(dict(_CONFIGS[quant]))
    return {"quant_config": get_quantization_config(str(config["quant_method"])).from_config(config)}


def _fill(layer: Any) -> None:
    """Values that every scheme can hold, the same each time."""
    import torch

    for parameter in layer.parameters():
        parameter.data = torch.ones(parameter.shape).to(parameter.dtype)


def _text(parameter: Any, processed: bool) -> str:
    """``ModelWeightParameter bfloat16 [256, 512] grad=False loader=weight_loader_v2``; once processed, its strides."""
    kind = "" if processed else f"{type(parameter).__name__} "
    dtype = str(parameter.dtype).removeprefix("torch.")
    text = f"{kind}{dtype} {list(parameter.shape)} grad={parameter.requires_grad}"
    if processed:
        return text + ("" if parameter.is_contiguous() else f" stride={list(parameter.stride())}")
    loader = getattr(parameter, "weight_loader", None)
    return text + f" loader={getattr(loader, '__name__', type(loader).__name__)}"


@contextmanager
def _bfloat16() -> Iterator[None]:
    """vLLM's loader sets the model's dtype as the default one while it builds layers."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
