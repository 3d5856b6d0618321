"""A whole model as the subject built it, and how far it ran: the machine contract of ``explain --config --json``."""

from __future__ import annotations

from enum import StrEnum

from harness.model.record import Ended, Frozen, Observation


class ModuleKind(StrEnum):
    """What a module of the model decides."""

    LINEAR = "linear"
    MOE = "moe"
    ATTENTION = "attention"
    EMBEDDING = "embedding"


class Phase(StrEnum):
    """What a forward pass does: read a prompt, or write one token for each of several sequences."""

    PREFILL = "prefill"
    DECODE = "decode"


class ModuleRoute(Frozen):
    """Modules of the model that differ in nothing but the number of their layer."""

    name: str
    """``model.layers.3-60.mlp.down_proj``: the layers are those that got the same."""
    count: int
    kind: ModuleKind
    module: str
    """Class of the module."""
    method: str
    """Class of its quantization method and scheme; empty where it has none."""
    kernel: str
    """What it got: a kernel class or function, experts, an attention backend; empty where vLLM names none."""
    shape: tuple[int, int] | None = None
    """Weight [N, K] of one rank, in elements, whatever the packing; None where there is not one weight."""
    choices: dict[str, str] = {}
    """What else was chosen on the way: ``backend``, ``impl``, ``prefill``, ..."""
    weights: dict[str, str] = {}
    """Parameter -> dtype and shape on one rank: ``float8_e4m3fn[2112, 7168]``."""


class Stop(Frozen):
    """Something that could not be decided on meta tensors."""

    at: str
    """The operator or function."""
    module: str
    """The module of the model that was running: how far it got."""
    words: str


class Pass(Frozen):
    """Post-processing of the weights, or one forward pass, on meta tensors."""

    name: str
    """``weights``, ``prefill`` or ``decode``."""
    tokens: int
    """Tokens in the batch; 0 for the weights."""
    ended: Ended
    layers_done: int
    """Layers that ran to their end: how far it got."""
    layers: int
    stops: tuple[Stop, ...] = ()
    operators: tuple[str, ...] = ()
    """Operators and Triton kernels reached, in the order of their first call: ``aten::mm``, ``_rocm_C::wvSplitK``,
    ``triton::fused_moe_kernel``, ``aiter.fused_moe.fused_moe``. Layers that equal an earlier one are run once."""


class WholeModel(Observation):
    """What a worker saw of a whole model. ``chosen`` is the class that vLLM built."""

    modules: tuple[ModuleRoute, ...] = ()
    passes: tuple[Pass, ...] = ()
    unknown: tuple[str, ...] = ()
    """What the answers hang on and the simulation had to assume."""
