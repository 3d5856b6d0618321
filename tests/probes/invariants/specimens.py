"""For each invariant a specimen with the fault built in, and its repaired twin: a question with both answers.

A specimen is what an adapter reports of a subject that has the fault. The probes' own tests make the same reports with
small subjects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.cell import Cell, Kernel, Layer, Surface, Tier
from harness.model.record import Candidate, Ended, Evidence, Observation
from harness.targets.facts import TARGETS

OFF = {"VLLM_ROCM_USE_AITER": "0"}
ON = {"VLLM_ROCM_USE_AITER": "1"}
MI300X = "gfx942/MI300X"


def target_of(gfx: str) -> str:
    """The first product of a gfx target."""
    return next(name for name, target in TARGETS.items() if target.gfx == gfx)


RX7900 = target_of("gfx1100")


def cell(
    surface: Surface,
    name: str = "kernel",
    *,
    target: str = MI300X,
    family: str = "family",
    env: Mapping[str, str] = OFF,
    **scheme: str | int | bool,
) -> Cell:
    environment = "aiter_on" if env == ON else "aiter_off"
    kernel = Kernel(name, surface, family, scheme)
    return Cell(Tier.ROUTE, TARGETS[target], environment, env, kernel, "model", 1, Layer("o", 512, 256))


def answered(
    chosen: str, *candidates: Candidate, evidence: Mapping[str, str] = {}, symbol: str = "select"
) -> Observation:
    asked = tuple(Evidence(question=question, answer=answer) for question, answer in evidence.items())
    return Observation(ended=Ended.ANSWERED, chosen=chosen, symbol=symbol, candidates=candidates, evidence=asked)


def refused(detail: str) -> Observation:
    return Observation(ended=Ended.REFUSED, symbol="select", detail=detail)


def passed_over(name: str, reason: str) -> Candidate:
    return Candidate(name=name, accepted=False, reason=reason)


def raised(detail: str) -> Observation:
    return Observation(ended=Ended.RAISED, symbol="select", detail=detail)


@dataclass(frozen=True)
class Specimen:
    """One fault and its repair."""

    rule: str
    cell: Cell
    faulty: Observation
    repaired: Observation
    words: str
    """What the finding must name."""


@dataclass(frozen=True)
class Pair:
    """A fault that shows beside another cell only."""

    rule: str
    cell: Cell
    other: Cell
    its: Observation
    faulty: Observation
    repaired: Observation


TORCH = "PerTensorTorchFP8ScaledMMLinearKernel"
TRITON = "TritonFp8BlockScaledMMKernel"

SPECIMENS = (
    Specimen("I1", cell(Surface.LINEAR, target=RX7900), answered(TORCH), answered(TRITON), "no FP8 matrix instruction"),
    Specimen(
        "I1",
        cell(Surface.ALLOWLIST, target=target_of("gfx90a")),
        answered("accepted", Candidate(name=TORCH, accepted=True)),
        answered("refused", passed_over(TORCH, "needs gfx942")),
        TORCH,
    ),
    Specimen(
        "I1",
        cell(Surface.EXPERTS, "AiterFp8BlockExperts", target=RX7900),
        answered("device", Candidate(name="device", accepted=True)),
        answered("no device", passed_over("device", "False")),
        "AiterFp8BlockExperts",
    ),
    Specimen(
        "I1",
        cell(Surface.MOE, env=ON),
        answered("AITER_MXFP8/AiterMxfp8Experts"),
        answered("EMULATION/Mxfp8EmulationTritonExperts"),
        "no MX matrix instruction",
    ),
    Specimen(
        "I2",
        cell(Surface.PLATFORM, "fp8_dtype"),
        answered("torch.float8_e4m3fn"),
        answered("torch.float8_e4m3fnuz"),
        "whose FP8 is FNUZ",
    ),
    Specimen(
        "I2",
        cell(Surface.WEIGHTS, family="processed", target=target_of("gfx950")),
        answered("weight float8_e4m3fnuz [256, 512] grad=False"),
        answered("weight float8_e4m3fn [256, 512] grad=False"),
        "whose FP8 is OCP",
    ),
    Specimen(
        "I3",
        cell(Surface.MOE),
        raised("AttributeError: 'NoneType' object has no attribute 'value'"),
        refused("no backend supports this"),
        "AttributeError",
    ),
    Specimen(
        "I3",
        cell(Surface.WEIGHTS),
        raised("AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'"),
        refused("MXFP4 weights need Marlin, which ROCm has not"),
        "gptq_marlin_repack",
    ),
    Specimen(
        "I3",
        cell(Surface.LINEAR),
        answered("B", passed_over("A", "  ")),
        answered("B", passed_over("A", "K is no multiple of 128")),
        "A is passed over without a reason",
    ),
    Specimen(
        "I3",
        cell(Surface.LINEAR),
        answered("A", Candidate(name="A", accepted=True, reason="needs gfx950")),
        answered("A", Candidate(name="A", accepted=True)),
        "taken with a refusal",
    ),
    Specimen(
        "I5", cell(Surface.LINEAR), answered("AiterFp8BlockScaledMMKernel"), answered(TRITON), "VLLM_ROCM_USE_AITER"
    ),
    Specimen(
        "I5",
        cell(Surface.ATTENTION, env={**ON, "VLLM_ROCM_USE_AITER_MHA": "0"}),
        answered("ROCM_AITER_FA"),
        answered("TORCH_SDPA"),
        "VLLM_ROCM_USE_AITER_MHA is off",
    ),
    Specimen(
        "I5",
        cell(Surface.IR_OP, "order.rms_norm.graphs_only", env=ON, target=target_of("gfx1201")),
        answered("aiter > vllm_c > native"),
        answered("vllm_c > native"),
        "aiter is chosen on gfx1201",
    ),
    Specimen(
        "I5",
        cell(Surface.ATTENTION, "as_ROCM_AITER_FA", env=ON, target=RX7900, backend="ROCM_AITER_FA"),
        answered("AiterFlashAttentionBackend"),
        refused("ROCM_AITER_FA is only supported on gfx9"),
        "AITER builds its kernels for gfx1250, gfx942, gfx950 alone",
    ),
    Specimen(
        "I6",
        cell(Surface.LINEAR, env=ON),
        answered("K", evidence={"a8w8_tuned_gemm: tuned row for N=512, K=256": "gfx=gfx1250, cu_num=256"}),
        answered("K", evidence={"a8w8_tuned_gemm: tuned row for N=512, K=256": "gfx=gfx942, cu_num=304"}),
        "a row of gfx1250",
    ),
    Specimen(
        "I7",
        cell(Surface.LINEAR, env=ON),
        answered("K", evidence={"K rewrites its weight": "shuffle_weight", "K is called with the plain layout": "MLA"}),
        answered("K", evidence={"K rewrites its weight": "shuffle_weight"}),
        "still reached through MLA",
    ),
    Specimen(
        "I9",
        cell(Surface.LINEAR),
        answered("K", evidence={"operator _rocm_C::wvSplitKQ": "missing"}),
        answered("K", evidence={"operator _rocm_C::wvSplitKQ": "declared"}),
        "_rocm_C::wvSplitKQ",
    ),
    Specimen(
        "I10",
        cell(Surface.PLATFORM, "supports_fp8"),
        answered("True", evidence={"device initialised": "torch.cuda.get_device_properties by vllm/p.py:9 in f"}),
        answered("True"),
        "torch.cuda.get_device_properties",
    ),
    Specimen(
        "I12",
        cell(Surface.MOE),
        answered("TRITON/TritonExperts", evidence={"TritonExperts.is_supported_config": "False: batched activations"}),
        answered("TRITON/TritonExperts", evidence={"TritonExperts.is_supported_config": "True"}),
        "is_supported_config says False",
    ),
    Specimen(
        "I12",
        cell(Surface.MOE, activation="kMxfp4Dynamic"),
        answered("TRITON_UNFUSED/UnfusedOAITritonExperts"),
        answered("EMULATION/OCP_MXQuantizationEmulationTritonExperts"),
        "16-bit activations",
    ),
    Specimen(
        "I12",
        cell(Surface.MOE, activation="kMxfp4Dynamic"),
        answered("TRITON_UNFUSED/UnfusedOAITritonExperts"),
        answered("TRITON_UNFUSED/UnfusedOAITritonExperts", evidence={"vLLM warns": "Falling back to BF16 activations"}),
        "16-bit activations",
    ),
    Specimen(
        "I13",
        cell(Surface.DTYPE, "nccl"),
        raised("ValueError: Unsupported dtype torch.float8_e4m3fnuz"),
        answered("ncclFloat8e4m3"),
        "float8_e4m3fnuz",
    ),
    Specimen(
        "I16",
        cell(Surface.WEIGHTS, "ReplicatedLinear"),
        answered("weight bfloat16 [256, 512] grad=False; bias bfloat16 [256] grad=True"),
        answered("weight bfloat16 [256, 512] grad=False; bias bfloat16 [256] grad=False"),
        "bias of ReplicatedLinear",
    ),
)

PAIRS = (
    Pair(
        "I8",
        cell(Surface.LINEAR, target=target_of("gfx1201")),
        cell(Surface.LINEAR, target=target_of("gfx1200")),
        answered(TORCH),
        refused("no kernel"),
        answered(TORCH),
    ),
    Pair(
        "I14",
        cell(Surface.MOE, env=ON),
        cell(Surface.MOE),
        answered("TRITON/TritonExperts"),
        refused("AITER does not support it"),
        refused("AITER does not support it: unset VLLM_ROCM_USE_AITER"),
    ),
    Pair(
        "I14",
        cell(Surface.MOE, env=ON),
        cell(Surface.MOE),
        answered("TRITON/TritonExperts"),
        refused("AITER does not support it"),
        answered("TRITON/TritonExperts"),
    ),
)
