from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from harness.adapters.decision import Decision
from harness.adapters.import_effects import decide_import_effect
from harness.model.cell import Cell, Surface
from harness.model.deed import Deed, Deeds
from harness.model.record import Ended, Evidence, Record

Ask = Callable[..., Decision]

VISIBLE = Deed("HIP_VISIBLE_DEVICES=0", "vllm/platforms/rocm.py:152 in _sync", importing=True)
OWN = Deed("TORCHINDUCTOR_COMPILE_THREADS=1", "vllm/env_override.py:19 in <module>", importing=True)


@pytest.fixture
def ask(stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None], make_cell: Callable[..., Cell]) -> Ask:
    def decide(effect: str, deeds: Deeds, *, aiter: bool = False) -> Decision:
        stand_modules({"vllm": {}, "vllm.envs": {"VLLM_ROCM_USE_AITER": aiter}})
        return decide_import_effect(make_cell("x", surface=Surface.IMPORT_EFFECT, scheme={"effect": effect}), deeds)

    return decide


@pytest.mark.parametrize(
    ("effect", "nothing"),
    [("variables", "unchanged"), ("device", "not initialised"), ("vendor", "not imported")],
)
def test_a_process_left_as_it_was_is_no_fault(ask: Ask, effect: str, nothing: str) -> None:
    decision = ask(effect, Deeds())
    assert (decision.ended, decision.chosen, decision.findings) == (Ended.ANSWERED, nothing, ())


def test_a_changed_visible_devices_variable_is_a_fault_at_its_function(ask: Ask) -> None:
    decision = ask("variables", Deeds(variables=[OWN, VISIBLE]))
    assert decision.chosen == f"{OWN.what}; {VISIBLE.what}"
    (finding,) = decision.findings
    assert (finding.rule, finding.symbol) == ("I11", "_sync")
    assert "HIP_VISIBLE_DEVICES=0" in finding.message


@pytest.mark.parametrize("what", ["no CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES=1"])
def test_every_visible_devices_variable_counts_however_it_changes(ask: Ask, what: str) -> None:
    deed = Deed(what, "vllm/a.py:1 in f", importing=True)
    assert len(ask("variables", Deeds(variables=[deed])).findings) == 1


def test_another_variable_is_told_and_no_fault(ask: Ask) -> None:
    decision = ask("variables", Deeds(variables=[OWN]))
    assert (decision.chosen, decision.findings) == (OWN.what, ())
    assert decision.evidence == (Evidence(question="I11", answer=f"{OWN.what} by {OWN.by}"),)


def test_what_a_function_did_later_is_no_effect_of_importing(ask: Ask) -> None:
    later = Deed("HIP_VISIBLE_DEVICES=0", "vllm/worker.py:9 in start")
    assert ask("variables", Deeds(variables=[later])).chosen == "unchanged"


def test_a_device_initialised_at_import_is_a_fault(ask: Ask) -> None:
    deed = Deed("torch.cuda.get_device_properties", "vllm/platforms/rocm.py:619 in supports_fp8", importing=True)
    (finding,) = ask("device", Deeds(initialised=[deed])).findings
    assert (finding.rule, finding.symbol) == ("I10", "supports_fp8")


@pytest.mark.parametrize(("aiter", "faults"), [(False, ["I15"]), (True, [])])
def test_a_vendor_s_package_is_imported_only_where_it_is_switched_on(ask: Ask, aiter: bool, faults: list[str]) -> None:
    by = "vllm/_aiter_ops.py:32 in <module>"
    deeds = Deeds(vendor=[Deed("aiter", by, importing=True), Deed("aiter.dtypes", by, importing=True)])
    decision = ask("vendor", deeds, aiter=aiter)
    assert decision.chosen == "aiter.dtypes", "the parent package of an import is no import of its own"
    assert [finding.rule for finding in decision.findings] == faults


def test_a_module_that_cannot_be_imported_is_named(
    ask: Ask, stand_modules: Callable[[Mapping[str, Mapping[str, object]]], None]
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> object:
            raise RuntimeError("no configuration")

    stand_modules({"vllm.config": {"__getattr__": Broken().__getattr__}})
    (failed,) = ask("variables", Deeds()).evidence
    assert failed == Evidence(question="import vllm.config", answer="RuntimeError: no configuration")


# ---- real vLLM


def _asked(routed: Callable[..., dict[str, Record]], version: str, environment: str) -> dict[str, Record]:
    words = {"targets": ["gfx942/MI300X"], "environments": [environment], "kernels": ["import_effect"]}
    return {record.kernel: record for record in routed(version, words).values()}


def test_0_29_0_hands_hip_visible_devices_to_its_children_and_0_30_0_does_not(
    routed: Callable[..., dict[str, Record]],
) -> None:
    (finding,) = _asked(routed, "0.29.0", "visible_devices")["environment"].findings
    assert (finding.rule, finding.symbol) == ("I11", "_sync_hip_cuda_env_vars")
    fixed = _asked(routed, "0.30.0", "visible_devices")
    assert {record.outcome for record in fixed.values()} == {"passed"}
