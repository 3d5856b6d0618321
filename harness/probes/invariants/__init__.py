"""The invariants: rules that must hold for any vLLM. ``INVARIANTS`` is the list; docs/invariants.md explains each.

In: cells and observations. Out: findings. To add one: a function with a name and a reason, a row here, and a specimen
with the fault built in beside its repaired twin (tests/probes/invariants).
"""

from __future__ import annotations

from harness.model.cell import Cell
from harness.model.record import Finding, Observation
from harness.probes.invariants.hardware import declared_operators, fp8_format, layout_contract, matrix_instruction
from harness.probes.invariants.process import device_untouched, no_gradients
from harness.probes.invariants.rule import Invariant, Seen
from harness.probes.invariants.run import partners, siblings_agree, switch_falls_back
from harness.probes.invariants.selection import (
    clear_refusal,
    exact_request,
    gates_obey,
    total_dtype_map,
    tuned_for_this_device,
)

__all__ = ["INVARIANTS", "Invariant", "Seen", "broken", "broken_across", "partners"]

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "I1",
        "matrix_instruction",
        "A kernel that needs a matrix instruction crashes, or is emulated beyond use, where the ISA lacks it.",
        check=matrix_instruction,
    ),
    Invariant(
        "I2",
        "fp8_format",
        "FNUZ and OCP FP8 differ in bias by one: read as the other, every value is wrong by a factor of 2.",
        check=fp8_format,
    ),
    Invariant(
        "I3",
        "clear_refusal",
        "A selector that raises anything but its own refusal, or passes a kernel over without a word, leaves users "
        "with a traceback instead of a reason.",
        check=clear_refusal,
    ),
    Invariant(
        "I4",
        "private_import",
        "A module private to one platform cannot be imported on another: who tries it breaks them all.",
        noted_by="harness.targets.packages",
    ),
    Invariant(
        "I5",
        "gates_obey",
        "An operator who switches a kernel off, to work round a fault, must be rid of it.",
        check=gates_obey,
    ),
    Invariant(
        "I6",
        "tuned_for_this_device",
        "A row tuned for another gfx target or another count of compute units says nothing of this device.",
        check=tuned_for_this_device,
    ),
    Invariant(
        "I7",
        "layout_contract",
        "A weight that its kernel rewrote is read as noise by a caller that expects the checkpoint's layout.",
        check=layout_contract,
    ),
    Invariant(
        "I8",
        "siblings_agree",
        "Targets of one ISA run the same code: where they are told apart, a list has forgotten one of them.",
        across=siblings_agree,
    ),
    Invariant(
        "I9",
        "declared_operators",
        "A kernel whose operator the build does not have fails with the first request.",
        check=declared_operators,
    ),
    Invariant(
        "I10",
        "device_untouched",
        "A launcher that initialises the device before its workers choose theirs puts every worker on device 0, and an "
        "answer that changes on the second asking is none.",
        check=device_untouched,
    ),
    Invariant(
        "I11",
        "environment_untouched",
        "A variable that importing vLLM sets is inherited by every child process, which then sees other devices.",
        noted_by="harness.adapters.import_effects",
    ),
    Invariant(
        "I12",
        "exact_request",
        "A kernel that its own predicate refuses, or one of another scheme, computes something else than was asked.",
        check=exact_request,
    ),
    Invariant(
        "I13",
        "total_dtype_map",
        "A dtype that the platform uses and a table does not know ends the first collective or cache that meets it.",
        check=total_dtype_map,
    ),
    Invariant(
        "I14",
        "switch_falls_back",
        "An optional switch is a preference: where it cannot be met, the next kernel serves.",
        across=switch_falls_back,
    ),
    Invariant(
        "I15",
        "vendor_import",
        "A vendor package that is switched off may not be importable: importing it anyway ends the start-up.",
        noted_by="harness.adapters.import_effects",
    ),
    Invariant(
        "I16",
        "no_gradients",
        "Kernels that reject tensors that require gradients fail on a bias that nobody will ever train.",
        check=no_gradients,
    ),
)


def broken(cell: Cell, seen: Observation) -> tuple[Finding, ...]:
    """What one observation breaks."""
    return tuple(finding for rule in INVARIANTS if rule.check for finding in rule.check(cell, seen))


def broken_across(cell: Cell, seen: Observation, others: tuple[Seen, ...]) -> tuple[Finding, ...]:
    """What one observation breaks beside those of its partners."""
    return tuple(finding for rule in INVARIANTS if rule.across for finding in rule.across(cell, seen, others))
