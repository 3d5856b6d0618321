"""Realistic runs for the tests of records, compare and report. Loaded by the three conftest files."""

from __future__ import annotations

from typing import Any

from harness.model.cell import Surface, Tier
from harness.model.record import Candidate, Category, Evidence, Finding, Outcome, Record
from harness.model.run import Manifest, Run
from harness.model.subject import Aiter, Subject
from harness.model.target import Attachment, Platform

TARGETS = (
    ("gfx90a", "MI250X"),
    ("gfx942", "MI300X"),
    ("gfx942", "MI308X"),
    ("gfx950", "MI350X"),
    ("gfx1100", "RX7900XTX"),
    ("gfx1201", "RX9070XT"),
    ("sm90", "H100"),
    ("cpu", "cpu"),
)
ENVIRONMENTS = ("aiter_off", "aiter_on", "batch_invariant")
KERNELS = (("fp8", "fp8_static"), ("fp8", "fp8_block"), ("int8", "int8"), ("wna16", "gptq"))
LAYERS = (("o", 7168, 2048), ("gate_up", 4608, 7168))
AITER, TORCH, TRITON, FALLBACK = "AiterBlock", "TorchScaledMM", "TritonBlock", "ChannelWiseTorch"


def manifest(spec: str = "pypi:0.29.0", **overrides: Any) -> Manifest:
    subject = Subject(
        spec=spec, version=spec.split(":")[-1], digest="d" + spec, aiter=Aiter(spec="stand-in", mode="stand-in")
    )
    values: dict[str, Any] = {
        "gfxloop": "0.1.0",
        "harness_digest": "h1",
        "started": "2026-01-01T00:00:00+00:00",
        "finished": None,
        "command": f"gfxloop check --subject {spec}",
        "subject": subject,
        "matrix_digest": "m1",
        "targets": ("gfx942/MI300X simulated",),
        "tiers": ("route",),
        "versions": {"torch": "2.13"},
        "cells": 0,
    }
    return Manifest(**(values | overrides))


def record(id_: str = "route/linear/gfx942.MI300X/aiter_off/fp8_block/m.tp8/o", **overrides: Any) -> Record:
    """One passed record; its place follows from the id, ``tier/surface/target/environment/kernel/model/layer``."""
    values: dict[str, Any] = {
        "id": id_,
        "platform": Platform.ROCM,
        "target": "gfx942",
        "device": "MI300X",
        "attachment": Attachment.SIMULATED,
        "tier": Tier.ROUTE,
        "surface": Surface.LINEAR,
        "family": "fp8",
        "kernel": "fp8_block",
        "environment": "aiter_off",
        "model": "m",
        "tp": 8,
        "layer": "o",
        "shape": (7168, 2048),
        "chosen": TRITON,
        "outcome": Outcome.PASSED,
        "reason": "every rule holds",
        "candidates": (
            Candidate(name=AITER, accepted=False, reason="AITER is off", category=Category.ENVIRONMENT),
            Candidate(name=TRITON, accepted=True),
            Candidate(name=FALLBACK, accepted=None),
        ),
        "evidence": (Evidence(question="is_tuned(n=7168, k=2048)", answer="False", source="table.csv:12"),),
        "findings": (),
        "expected": None,
        "reproduce": f"gfxloop reproduce {id_}",
    }
    return Record(**(values | overrides))


def run(*records: Record, spec: str = "pypi:0.29.0", **overrides: Any) -> Run:
    return Run(manifest=manifest(spec, **({"cells": len(records)} | overrides)), records=records)


def realistic(faulty: bool, models: int = 3) -> Run:
    """A run over all the samples' targets; ``faulty`` gives gfx1100 a kernel that its ISA cannot run, as 0.28.0 did."""
    records = [
        _routed(gfx, product, environment, family, kernel, f"model{index}", layer, faulty)
        for gfx, product in TARGETS
        for environment in ENVIRONMENTS
        for family, kernel in KERNELS
        for index in range(models)
        for layer in LAYERS
    ]
    return run(*records, spec="pypi:0.28.0" if faulty else "pypi:0.29.0")


def _routed(
    gfx: str,
    product: str,
    environment: str,
    family: str,
    kernel: str,
    model: str,
    layer: tuple[str, int, int],
    faulty: bool,
) -> Record:
    platform = {"sm90": Platform.CUDA, "cpu": Platform.CPU}.get(gfx, Platform.ROCM)
    target = gfx if gfx == product else f"{gfx}.{product}"
    id_ = f"route/linear/{target}/{environment}/{kernel}/{model}.tp8/{layer[0]}"
    place: dict[str, Any] = {
        "platform": platform,
        "target": gfx,
        "device": product,
        "family": family,
        "kernel": kernel,
        "environment": environment,
        "model": model,
        "layer": layer[0],
        "shape": layer[1:],
    }
    if kernel == "gptq" and gfx == "sm90":
        return record(
            id_, **place, chosen=None, candidates=(), outcome=Outcome.UNSUPPORTED, reason="no entry point: gptq"
        )
    on = environment == "aiter_on" and gfx in ("gfx942", "gfx950")
    fp8 = gfx not in ("gfx90a", "gfx1100")
    broken = faulty and gfx == "gfx1100" and family == "fp8"
    torch_words = f"requires compute capability 89, {gfx} has none" if not fp8 else ""
    candidates = (
        Candidate(
            name=AITER, accepted=on, reason="" if on else "AITER is off", category=None if on else Category.ENVIRONMENT
        ),
        Candidate(
            name=TORCH,
            accepted=None if on else fp8 or broken,
            reason="" if on or broken else torch_words,
            category=None if on or fp8 or broken else Category.ARCHITECTURE,
        ),
        Candidate(name=FALLBACK, accepted=None if on or fp8 or broken else True),
    )
    chosen = next(candidate.name for candidate in candidates if candidate.accepted)
    message = f"gfx1100 has no FP8 matrix instruction, but {TORCH} was chosen"
    findings = (Finding(rule="isa_has_instruction", symbol=f"vllm.{TORCH}.is_supported", message=message),)
    return record(
        id_,
        **place,
        chosen=chosen,
        candidates=candidates,
        outcome=Outcome.FAILED if broken else Outcome.PASSED,
        reason=message if broken else "every rule holds",
        findings=findings if broken else (),
    )
