"""What a cell is: platform x gfx target x kernel x model, at one tier, in one environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.target import Target


class Tier(StrEnum):
    """How deep a cell looks, cheapest first."""

    GUARD = "guard"
    ROUTE = "route"
    COMPILE = "compile"
    INTERPRET = "interpret"
    EXECUTE = "execute"
    ACCURACY = "accuracy"


class Surface(StrEnum):
    """Where in vLLM the decision is made. One adapter answers for each."""

    PLATFORM = "platform"
    AITER_GATE = "aiter_gate"
    TUNED_GATE = "tuned_gate"
    ALLOWLIST = "allowlist"
    LINEAR = "linear"
    LINEAR_KERNEL = "linear_kernel"
    UNQUANTIZED_GEMM = "unquantized_gemm"
    MOE = "moe"
    EXPERTS = "experts"
    MOE_ORACLE = "moe_oracle"
    ATTENTION = "attention"
    ATTENTION_BACKEND = "attention_backend"
    IR_OP = "ir_op"
    QUANTIZATION = "quantization"
    DTYPE = "dtype"
    DEFAULTS = "defaults"
    SWITCH = "switch"
    WEIGHTS = "weights"
    GUARD = "guard"
    IMPORT_EFFECT = "import_effect"
    UPSTREAM = "upstream"
    """A test of the subject's own suite."""
    WHOLE_MODEL = "whole_model"
    """A model built from its ``config.json``."""


FROM_COMMANDS: Mapping[Surface, str] = {
    Surface.UPSTREAM: "gfxloop run --upstream FILE",
    Surface.WHOLE_MODEL: "gfxloop explain --config FILE",
}
"""Surfaces whose cells come from a command and not from matrix.yaml, with the command."""


@dataclass(frozen=True)
class Kernel:
    """What a cell asks for: on surface ``linear`` a quantization scheme, elsewhere a predicate, gate or fact."""

    name: str
    surface: Surface
    family: str
    """Groups kernels in reports: fp8, int8, wna16, mx, nvfp4, facts, gates, ..."""
    scheme: Mapping[str, str | int | bool]
    """What the adapter of the surface needs to build the request; keys are the adapter's own."""
    needs: tuple[str, ...] = ()
    """Symbols that a release must have for the cell to make sense, as ``module:name``; else it is unsupported."""


@dataclass(frozen=True)
class Layer:
    """One linear layer of a model on one rank: weight [n, k], both in elements."""

    name: str
    n: int
    k: int


@dataclass(frozen=True)
class Cell:
    """One question to the subject. ``id`` is stable across subjects, so that two runs can be compared."""

    tier: Tier
    target: Target
    environment: str
    """Name of the environment profile in matrix.yaml."""
    env: Mapping[str, str] = field(hash=False)
    """The environment variables that the profile sets."""
    kernel: Kernel = field(hash=False)
    model: str | None = None
    tp: int | None = None
    layer: Layer | None = None

    @property
    def id(self) -> str:
        """``route/linear/gfx942.MI300X/aiter_on/fp8_block/deepseek-v3.tp8/o``: no blank, safe in a shell."""
        parts = [self.tier.value, self.kernel.surface.value, self.target.name.replace("/", "."), self.environment]
        parts.append(self.kernel.name)
        if self.model is not None:
            parts.append(f"{self.model}.tp{self.tp}")
        if self.layer is not None:
            parts.append(self.layer.name)
        return "/".join(parts)
