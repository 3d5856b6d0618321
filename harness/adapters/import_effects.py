"""Importing vLLM: what it does to the process. It should leave the process as it was.

In: a cell of surface ``import_effect``, and what the subject was seen to do so far. Out: what importing it did of one
kind: environment variables set, the device initialised, a vendor's package imported. Only what a module did while it
was being imported counts. A cell of this surface is worth most before any other cell of its worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.adapters.decision import Decision, find, raised
from harness.model.cell import Cell
from harness.model.deed import Deed, Deeds
from harness.model.record import Ended, Evidence, Finding

_MODULES = (
    "vllm",
    "vllm.envs",
    "vllm.platforms",
    "vllm._aiter_ops",
    "vllm._custom_ops",
    "vllm.config",
    "vllm.model_executor.layers.linear",
    "vllm.model_executor.kernels.linear",
    "vllm.model_executor.layers.fused_moe",
    "vllm.model_executor.layers.quantization",
    "vllm.v1.attention.selector",
)
"""What any engine imports before it has chosen anything."""

VISIBLE = "VISIBLE_DEVICES"
"""Ends the names of the variables that say which devices a process and its children see."""


@dataclass(frozen=True)
class _Effect:
    """One kind of effect."""

    nothing: str
    """The answer where there was none."""
    deeds: Callable[[Deeds], list[Deed]]
    rule: str
    message: str
    is_fault: Callable[[Deed], bool]


def decide_import_effect(cell: Cell, deeds: Deeds) -> Decision:
    """Import vLLM's modules and tell what importing did.

    Args:
        cell: its scheme names the ``effect``.
        deeds: what the subject did in this process; it grows while modules are imported.
    """
    effect = _EFFECTS[str(cell.kernel.scheme["effect"])]
    failed = tuple(_import(_MODULES))
    if len(failed) == len(_MODULES):
        return Decision(Ended.RAISED, detail=failed[0].answer)
    done = _once(deed for deed in effect.deeds(deeds) if deed.importing)
    faults = [deed for deed in done if effect.is_fault(deed)]
    return Decision(
        Ended.ANSWERED,
        "; ".join(deed.what for deed in done) or effect.nothing,
        "; ".join(dict.fromkeys(deed.symbol for deed in faults or done)),
        evidence=tuple(Evidence(question=effect.rule, answer=f"{deed.what} by {deed.by}") for deed in done) + failed,
        findings=tuple(
            Finding(rule=effect.rule, symbol=deed.symbol, message=effect.message.format(what=deed.what, by=deed.by))
            for deed in faults
        ),
    )


def _import(names: Sequence[str]) -> Iterable[Evidence]:
    """Import what this release has. A module that fails is another surface's business, and named in the evidence."""
    for name in names:
        try:
            find(name, "current_platform")  # vLLM looks for its platform when it is asked for it
        except Exception as error:  # whatever an import raises
            yield Evidence(question=f"import {name}", answer=raised(error).detail)


def _once(deeds: Iterable[Deed]) -> list[Deed]:
    """The deeds in order, less those that only repeat an earlier one or are the parent package of the next."""
    kept: dict[str, Deed] = {}
    for deed in deeds:
        kept.setdefault(deed.what, deed)
    longer = tuple(kept)
    return [
        deed
        for what, deed in kept.items()
        if not any(other.startswith(f"{what}.") and kept[other].by == deed.by for other in longer)
    ]


def _aiter_is_off(_deed: Deed) -> bool:
    return not find("vllm.envs", "VLLM_ROCM_USE_AITER")


_EFFECTS: Mapping[str, _Effect] = {
    "variables": _Effect(
        "unchanged",
        lambda deeds: deeds.variables,
        "I11",
        "importing vLLM leaves {what} behind ({by}): child processes inherit which devices they see",
        lambda deed: deed.what.removeprefix("no ").partition("=")[0].endswith(VISIBLE),
    ),
    "device": _Effect(
        "not initialised",
        lambda deeds: deeds.initialised,
        "I10",
        "importing vLLM initialises the device: {what} ({by}), before a worker can choose its own",
        lambda _deed: True,
    ),
    "vendor": _Effect(
        "not imported",
        lambda deeds: deeds.vendor,
        "I15",
        "importing vLLM imports {what} ({by}) although VLLM_ROCM_USE_AITER is off",
        _aiter_is_off,
    ),
}
