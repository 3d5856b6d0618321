from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.adapters.decision import Decision
from harness.model.cell import Cell, Layer, Surface
from harness.model.deed import Deed
from harness.model.record import Candidate, Ended, Evidence, Finding, Observation, Outcome, Record
from harness.probes import route
from harness.probes.route import observe, prepare
from harness.targets.aiter import AiterStandIn
from harness.targets.facts import TARGETS
from harness.targets.journal import Journal, Lookup, PrivateImport
from harness.targets.simulated import Simulation, View

Routed = Callable[..., dict[str, Record]]

FAST = Decision(Ended.ANSWERED, "Fast", "Fast.is_supported")
SLOW = Decision(Ended.ANSWERED, "Slow")


class Asker:
    """A simulation without vLLM, and an adapter that answers with what a test gives it."""

    def __init__(self, simulation: Simulation, cell: Cell) -> None:
        self.simulation = simulation
        self.journal = simulation.journal
        self.cell = cell
        self.times = 0
        self.answer: Callable[[bool], Decision] = lambda _assumed: FAST

    def decide(self, _cell: Cell) -> Decision:
        self.times += 1
        assert self.simulation.stand_in is not None
        return self.answer(self.simulation.stand_in.assumed)

    def observe(self, answer: Callable[[bool], Decision]) -> Observation:
        self.answer = answer
        return observe(self.simulation, self.cell)


@pytest.fixture
def asker(make_cell: Callable[..., Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asker:
    target, journal = TARGETS["gfx950/MI350X"], Journal()
    view = View(tmp_path / "tree", "0", "stand-in", None, {})
    simulation = Simulation(target, view, journal, AiterStandIn(target, None, journal, tmp_path), [])
    made = Asker(simulation, make_cell(target=target.name, layer=Layer("o", 7168, 2048)))
    monkeypatch.setattr(route, "_ADAPTERS", {Surface.LINEAR: made.decide})
    monkeypatch.setattr(route, "forget_gate_answers", lambda: None)
    return made


# ---- what the simulation cannot know


def test_operators_that_come_from_a_table_are_told_of(asker: Asker) -> None:
    assert asker.observe(lambda _: FAST).evidence == ()
    source = asker.simulation.operators_from = "operators.tsv: csrc of vLLM 9.9"
    told = Evidence(question="operators that the build registers", answer="those of a table", source=source)
    assert asker.observe(lambda _: FAST).evidence == (told,)


def test_an_answer_that_hangs_on_nothing_is_the_same_when_asked_again(asker: Asker) -> None:
    seen = asker.observe(lambda _: FAST)
    assert (seen.ended, seen.chosen, seen.symbol, asker.times) == (Ended.ANSWERED, "Fast", "Fast.is_supported", 2)
    assert seen.findings == ()


def test_another_answer_to_the_same_question_is_a_fault(asker: Asker) -> None:
    seen = asker.observe(lambda _: FAST if asker.times == 1 else SLOW)
    assert (seen.ended, seen.chosen) == (Ended.ANSWERED, "Fast")
    (finding,) = seen.findings
    assert (finding.rule, finding.symbol) == ("I10", "Fast.is_supported")
    assert finding.message == "asked twice in one process, it answers Fast and then Slow"


def test_what_becomes_unknown_the_second_time_is_no_fault(asker: Asker) -> None:
    def answer(_assumed: bool) -> Decision:
        if asker.times == 1:
            return FAST
        asker.journal.limit("operator _C::gemm")
        return SLOW

    assert asker.observe(answer).findings == ()


@pytest.mark.parametrize("surface", [Surface.WEIGHTS, Surface.GUARD])
def test_a_dear_question_is_asked_once(asker: Asker, monkeypatch: pytest.MonkeyPatch, surface: Surface) -> None:
    monkeypatch.setattr(route, "_ADAPTERS", {surface: asker.decide})
    asker.cell = dataclasses.replace(asker.cell, kernel=dataclasses.replace(asker.cell.kernel, surface=surface))
    asker.observe(lambda _: FAST)
    assert asker.times == 1


def _assuming(asker: Asker, yes: Decision, no: Decision) -> Callable[[bool], Decision]:
    def answer(assumed: bool) -> Decision:
        asker.journal.unknown.append("whether there is a row for N=7168")
        return yes if assumed else no

    return answer


def test_an_assumption_that_changes_nothing_leaves_the_answer(asker: Asker) -> None:
    seen = asker.observe(_assuming(asker, FAST, FAST))
    assert (seen.ended, seen.chosen, asker.times) == (Ended.ANSWERED, "Fast", 2)


def test_what_hangs_on_an_assumption_beside_the_answer_is_not_told(asker: Asker) -> None:
    both, one = Evidence(question="is_enabled()", answer="True"), Evidence(question="is_tuned()", answer="True")
    fault = Finding(rule="layout", symbol="f", message="m")
    yes = dataclasses.replace(FAST, evidence=(both, one), findings=(fault,))
    seen = asker.observe(_assuming(asker, yes, dataclasses.replace(FAST, evidence=(both,))))
    assert (seen.ended, seen.evidence, seen.findings) == (Ended.ANSWERED, (both,), ())


PASSED_OVER = dataclasses.replace(FAST, candidates=(Candidate(name="Slow", accepted=False, reason="not tuned"),))


@pytest.mark.parametrize(
    "other", [SLOW, Decision(Ended.REFUSED, detail="none"), Decision(Ended.RAISED, detail="TypeError"), PASSED_OVER]
)
def test_an_assumption_that_changes_anything_makes_the_answer_indeterminate(asker: Asker, other: Decision) -> None:
    seen = asker.observe(_assuming(asker, FAST, other))
    assert (seen.ended, seen.chosen) == (Ended.INDETERMINATE, None)
    assert seen.detail == (
        f"cannot tell whether there is a row for N=7168. If so: Fast; if not: {other.chosen or other.detail}"
    )


def test_a_limit_met_under_the_other_assumption_alone_makes_it_indeterminate(asker: Asker) -> None:
    def answer(assumed: bool) -> Decision:
        asker.journal.unknown.append("whether there is a row")
        if not assumed:
            asker.journal.limit("operator _C::gemm")  # the subject swallows the error
        return FAST

    seen = asker.observe(answer)
    assert seen.ended is Ended.INDETERMINATE
    assert "cannot tell whether there is a row; what operator _C::gemm does." in seen.detail


@pytest.mark.parametrize(
    "decision", [FAST, Decision(Ended.RAISED, detail="SimulationLimit: x"), Decision(Ended.REFUSED)]
)
def test_device_code_on_the_way_makes_any_answer_indeterminate(asker: Asker, decision: Decision) -> None:
    def answer(_assumed: bool) -> Decision:
        asker.journal.limit("operator _C::gemm")
        return decision

    seen = asker.observe(answer)
    assert (seen.ended, seen.chosen, asker.times) == (Ended.INDETERMINATE, None, 1)
    assert seen.detail.startswith("cannot tell what operator _C::gemm does. Here: ")


@pytest.mark.parametrize("words", ["Torch not compiled with CUDA enabled", "No HIP GPUs are available"])
def test_torch_s_own_word_for_no_device_is_no_fault_of_the_subject(asker: Asker, words: str) -> None:
    seen = asker.observe(lambda _: Decision(Ended.RAISED, detail=f"AssertionError: {words}"))
    assert seen.ended is Ended.INDETERMINATE
    assert asker.observe(lambda _: Decision(Ended.RAISED, detail="AssertionError: x")).ended is Ended.RAISED


def test_an_operator_that_another_package_registers_on_xpu_is_not_known_to_be_missing(asker: Asker) -> None:
    detail = "AttributeError: '_OpNamespace' '_C' object has no attribute 'rotary_embedding'"
    missing = Decision(Ended.RAISED, detail=detail)
    assert asker.observe(lambda _: missing).ended is Ended.RAISED
    asker.simulation.target = TARGETS["xpu"]
    seen = asker.observe(lambda _: missing)
    assert seen.ended is Ended.INDETERMINATE
    assert seen.detail.startswith("cannot tell whether vllm-xpu-kernels has rotary_embedding. Here: AttributeError")


def test_what_an_earlier_cell_noted_is_not_this_cell_s(asker: Asker) -> None:
    asker.journal.unanswerable.append("what another cell met")
    asker.journal.private.append(PrivateImport("amdsmi", "vllm/a.py:1 in f"))
    seen = asker.observe(lambda _: FAST)
    assert (seen.ended, seen.findings) == (Ended.ANSWERED, ())


# ---- what goes into an observation


def test_a_private_import_is_a_finding_at_its_function_once(asker: Asker) -> None:
    own = Finding(rule="numerics", symbol="f", message="m")

    def answer(_assumed: bool) -> Decision:
        asker.journal.private.extend([PrivateImport("vllm.platforms.rocm", "vllm/fp8.py:884 in mm")] * 2)
        return dataclasses.replace(FAST, findings=(own,))

    assert asker.observe(answer).findings == (
        own,
        Finding(
            rule="I4",
            symbol="mm",
            message="imports vllm.platforms.rocm, which is private to another platform, on rocm (vllm/fp8.py:884)",
        ),
    )


def test_look_ups_are_evidence_once_after_vllm_s_own(asker: Asker) -> None:
    def answer(_assumed: bool) -> Decision:
        asker.journal.lookups.extend([Lookup("table: N=1", "tuned", "t.csv:2")] * 2)
        return dataclasses.replace(FAST, evidence=(Evidence(question="gate()", answer="True"),))

    assert [item.question for item in asker.observe(answer).evidence] == ["gate()", "table: N=1"]


def test_what_would_initialise_the_device_is_evidence_once(asker: Asker) -> None:
    def answer(_assumed: bool) -> Decision:
        asker.journal.deeds.initialised.append(Deed("torch.cuda.current_device", "vllm/a.py:1 in f"))
        asker.journal.deeds.initialised.append(Deed("torch.cuda.init", "vllm/b.py:1 in <module>", importing=True))
        return FAST

    assert asker.observe(answer).evidence == (
        Evidence(question="device initialised", answer="torch.cuda.current_device by vllm/a.py:1 in f"),
    )


def test_an_effect_of_importing_is_told_of_all_that_was_done_so_far(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker.journal.deeds.vendor.append(Deed("aiter", "vllm/a.py:1 in <module>", importing=True))
    asker.cell = dataclasses.replace(
        asker.cell, kernel=dataclasses.replace(asker.cell.kernel, surface=Surface.IMPORT_EFFECT)
    )
    told: list[list[Deed]] = []
    monkeypatch.setattr(route, "decide_import_effect", lambda _cell, deeds: told.append(deeds.vendor) or FAST)
    assert asker.observe(lambda _: SLOW).chosen == "Fast"
    assert [[deed.what for deed in deeds] for deeds in told] == [["aiter"]]


def test_an_import_that_fails_is_the_subject_s_answer(asker: Asker) -> None:
    def answer(_assumed: bool) -> Decision:
        raise ImportError("cannot import name 'x'")

    seen = asker.observe(answer)
    assert (seen.ended, seen.detail) == (Ended.RAISED, "ImportError: cannot import name 'x'")


def test_no_path_of_this_machine_is_in_a_detail(asker: Asker) -> None:
    tree = asker.simulation.view.tree
    seen = asker.observe(lambda _: Decision(Ended.RAISED, detail=f"OSError: {tree}/vllm/x.json is missing"))
    assert seen.detail == "OSError: vllm/x.json is missing"


@pytest.mark.parametrize(("answer", "source"), [("True", ["t.csv:2"]), ("False", [])])
def test_a_gate_that_reads_a_table_by_itself_shows_the_row_and_whose_it_is(
    asker: Asker, tmp_path: Path, answer: str, source: list[str]
) -> None:
    base = "a8w8_blockscale_bpreshuffle_tuned_gemm"
    (tmp_path / f"{base}.csv").write_text("gfx,cu_num,M,N,K\ngfx1250,256,16,7168,2048\n")
    asker.simulation.view = dataclasses.replace(asker.simulation.view, aiter="tables", aiter_path=tmp_path)
    gate = Evidence(question="rocm_aiter_ops.is_blockscale_bpreshuffle_tuned(n=7168, k=2048)", answer=answer)
    seen = asker.observe(lambda _: dataclasses.replace(FAST, evidence=(gate,)))
    rows = [(item.answer, item.source) for item in seen.evidence[1:]]
    assert rows == [("gfx=gfx1250, cu_num=256", f"{base}.csv:2")] * len(source)


def test_a_target_without_a_device_has_no_configuration(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []

    class Configuration:
        def __enter__(self) -> None:
            entered.append("yes")

        def __exit__(self, *_error: object) -> None:
            entered.append("left")

    monkeypatch.setattr(route, "vllm_config", Configuration)
    monkeypatch.setattr(route, "subject_reads_tables", lambda: True)
    prepare(dataclasses.replace(asker.simulation, target=TARGETS["none"], stand_in=None))
    assert entered == []
    prepare(asker.simulation)
    assert entered == ["yes"], "the configuration must outlive prepare"
    assert asker.simulation.stand_in is not None
    assert asker.simulation.stand_in.read_by_subject


# ---- an environment that cannot serve the release

MISSING = ModuleNotFoundError("No module named 'made_up'", name="made_up")
"""As a third-party package that is not installed."""


def _prepare_with(monkeypatch: pytest.MonkeyPatch, simulation: Simulation, error: Exception) -> None:
    class Configuration:
        def __enter__(self) -> None:
            raise error

        def __exit__(self, *_error: object) -> None: ...

    monkeypatch.setattr(route, "vllm_config", Configuration)
    prepare(simulation)


def test_without_a_package_only_what_needs_no_configuration_is_asked(
    asker: Asker, make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepare_with(monkeypatch, asker.simulation, MISSING)
    assert asker.simulation.lacking.startswith("cannot tell what vLLM does with package made_up, which is missing here")
    seen = asker.observe(lambda _: FAST)
    assert (seen.ended, seen.detail, asker.times) == (Ended.INDETERMINATE, asker.simulation.lacking, 0)
    monkeypatch.setattr(route, "_ADAPTERS", {Surface.PLATFORM: asker.decide})
    asker.cell = make_cell(target=asker.simulation.target.name, surface=Surface.PLATFORM)
    assert asker.observe(lambda _: FAST).chosen == "Fast"


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'vllm._C'", name="vllm._C"),
        ModuleNotFoundError("No module named 'flash_attn'", name="flash_attn"),
        AssertionError("no layer"),
    ],
)
def test_a_fault_of_the_subject_is_no_lack_of_the_environment(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with pytest.raises(type(error)):
        _prepare_with(monkeypatch, asker.simulation, error)
    assert asker.simulation.lacking == ""


def test_a_stand_in_that_was_called_on_the_way_is_no_fault_of_the_subject(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepare_with(monkeypatch, asker.simulation, asker.journal.limit("aiter.dtypes.fp8"))
    assert asker.simulation.lacking.startswith("cannot tell what aiter.dtypes.fp8 does. Importing vLLM here ends in ")


def test_a_surface_that_imports_what_is_missing_here_is_indeterminate(asker: Asker) -> None:
    def answer(_assumed: bool) -> Decision:
        raise MISSING

    seen = asker.observe(answer)
    assert seen.ended is Ended.INDETERMINATE
    assert "package made_up, which is missing here" in seen.detail


# ---- the three faults of design.md section 1, in real releases

FAULTS: Sequence[dict[str, Any]] = (
    {
        "targets": ["gfx1100", "sm90", "xpu", "cpu"],
        "environments": ["aiter_off", "default"],
        "kernels": ["allowlist", "guard"],
    },
    {"targets": ["gfx1100"], "environments": ["aiter_off"], "kernels": ["fp8"], "models": ["qwen3-0.6b"]},
)
GUARD = "w8a8_triton_block_scaled_mm"


@pytest.fixture(scope="module")
def bad(routed: Routed) -> dict[str, Record]:
    return routed("0.28.0", *FAULTS)


@pytest.fixture(scope="module")
def mended(routed: Routed) -> dict[str, Record]:
    return routed("0.29.0", *FAULTS)


def test_0_28_0_gives_torch_scaled_mm_to_gfx1100(bad: dict[str, Record]) -> None:
    allowlist = [r for r in bad.values() if r.surface == "allowlist" and r.target == "gfx1100"]
    flagged = {r.kernel: r for r in allowlist if r.outcome is Outcome.FAILED}
    assert {"torch_fp8_per_tensor", "torch_fp8_channel_wise"} <= set(flagged)
    for record in flagged.values():
        assert record.chosen == "accepted"
        assert [(finding.rule, finding.symbol) for finding in record.findings] == [
            ("I1", "TorchFP8ScaledMMLinearKernel.is_supported"),
            ("expectation", "TorchFP8ScaledMMLinearKernel.is_supported"),
        ]
        assert all("no FP8 matrix instruction" in finding.message for finding in record.findings)


@pytest.mark.parametrize("target", ["sm90", "xpu", "cpu"])
def test_0_28_0_imports_rocm_in_the_guarded_function_on_every_other_platform(
    bad: dict[str, Record], target: str
) -> None:
    (record,) = [r for r in bad.values() if r.surface == "guard" and r.target == target]
    assert record.outcome is Outcome.FAILED
    (finding,) = [finding for finding in record.findings if finding.rule == "I4"]
    assert finding.symbol == GUARD
    assert "vllm.platforms.rocm" in finding.message
    assert "fp8_utils.py:" in finding.message


def test_0_28_0_has_no_other_fault_on_these_targets(bad: dict[str, Record]) -> None:
    faulty = {(r.target, r.kernel) for r in bad.values() if r.outcome.is_bad and r.surface != "linear"}
    assert {kernel for target, kernel in faulty if target != "gfx1100"} == {GUARD}
    assert GUARD not in {kernel for target, kernel in faulty if target == "gfx1100"}


def test_0_29_0_has_neither_fault(mended: dict[str, Record]) -> None:
    assert {r.id: r.reason for r in mended.values() if r.outcome is not Outcome.PASSED} == {}
    guards = {r.target: (r.chosen, r.findings) for r in mended.values() if r.surface == "guard"}
    assert guards == dict.fromkeys(("gfx1100", "sm90", "xpu", "cpu"), ("launched", ()))


def test_gfx1100_loses_torch_scaled_mm_from_0_28_0_to_0_29_0_and_the_reason_is_vllm_s(
    bad: dict[str, Record], mended: dict[str, Record]
) -> None:
    rows = [(r, mended[r.id]) for r in bad.values() if r.surface == "linear" and r.kernel != "fp8_block"]
    assert {r.chosen for r, _ in rows} == {
        "PerTensorTorchFP8ScaledMMLinearKernel",
        "ChannelWiseTorchFP8ScaledMMLinearKernel",
    }
    for before, after in rows:
        assert [finding.rule for finding in before.findings] == ["I1"]
        assert after.chosen is None, "0.29.0 has no other FP8 kernel for this target"
        (passed_over,) = [one for one in after.candidates if one.name == before.chosen]
        assert passed_over.accepted is False
        assert "requires a platform with torch FP8 scaled-MM support" in passed_over.reason


PRESHUFFLED = "AiterPreshuffledFp8BlockScaledMMKernel"
BLOCK = {"targets": ["gfx950"], "environments": ["aiter_on"], "kernels": ["fp8_block"], "models": ["deepseek-v3"]}
TUNED = ("q_a", "q_b", "o")


def test_0_30_0_puts_the_preshuffled_kernel_first_on_tuned_deepseek_shapes(routed: Routed, aiter_tables: Path) -> None:
    records = {r.layer: r for r in routed("0.30.0", BLOCK, aiter=f"tables:{aiter_tables}").values()}
    for layer in TUNED:
        record = records[layer]
        assert (record.chosen, record.candidates[0].name) == (PRESHUFFLED, PRESHUFFLED)
        assert record.candidates[0].accepted
        assert record.outcome is Outcome.FAILED
        assert [finding.rule for finding in record.findings] == ["I7", "expectation"]
        assert "pull/57132" in record.reason or "0.0053" in record.reason
        n, k = record.shape or (0, 0)
        evidence = {item.question: item for item in record.evidence}
        assert evidence[f"rocm_aiter_ops.is_blockscale_bpreshuffle_tuned(n={n}, k={k})"].answer == "True"
        row = evidence[f"a8w8_blockscale_bpreshuffle_tuned_gemm: tuned row for N={n}, K={k}"]
        assert row.source.rpartition(":")[2].isdigit()


def test_0_31_0_goes_back_to_the_plain_layout(routed: Routed, aiter_tables: Path) -> None:
    records = {r.layer: r for r in routed("0.31.0", BLOCK, aiter=f"tables:{aiter_tables}").values()}
    assert {records[layer].chosen for layer in TUNED} == {"AiterFp8BlockScaledMMKernel"}
    assert {r.outcome for r in records.values()} == {Outcome.PASSED}


def test_0_30_0_is_indeterminate_without_tables_and_never_passed(routed: Routed) -> None:
    records = routed("0.30.0", BLOCK)
    assert {r.outcome for r in records.values() if r.layer in TUNED} == {Outcome.INDETERMINATE}
    assert all("--aiter tables:DIR" in r.reason for r in records.values() if r.layer in TUNED)


# ---- every release that is served


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"])
def test_every_release_runs_and_what_it_lacks_is_unsupported(
    on_gfx942: Callable[[str], dict[str, Record]], version: str
) -> None:
    records = on_gfx942(version).values()
    assert {r.id: r.reason for r in records if r.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT)} == {}
    unsupported = [r for r in records if r.outcome is Outcome.UNSUPPORTED]
    assert all(r.reason.startswith("this vLLM has no ") for r in unsupported)
    answered = [r for r in records if r.outcome in (Outcome.PASSED, Outcome.FAILED)]
    assert len(answered) > 0.7 * len(records)
    assert {r.family for r in answered} >= {
        "fp8",
        "int8",
        "wna16",
        "facts",
        "arch",
        "gates",
        "torch_fp8",
        "gfx1250_guard",
    }
    chosen = {r.chosen for r in records if r.kernel == "fp8_block" and r.environment == "aiter_off"}
    assert chosen == {"TritonFp8BlockScaledMMKernel"}


@pytest.mark.parametrize(
    ("needs", "ended"),
    [((), Ended.ANSWERED), (("vllm:here",), Ended.ANSWERED), (("vllm:gone",), Ended.UNSUPPORTED)],
)
def test_a_cell_that_needs_what_the_release_lacks_is_unsupported(monkeypatch, tmp_path, make_cell, needs, ended):
    monkeypatch.setitem(sys.modules, "vllm", types.SimpleNamespace(here=1))
    monkeypatch.setattr(route, "forget_gate_answers", lambda: None)
    monkeypatch.setattr(route, "_ADAPTERS", {Surface.LINEAR: lambda _cell: Decision(Ended.ANSWERED, "K")})
    cell = make_cell()
    cell = dataclasses.replace(cell, kernel=dataclasses.replace(cell.kernel, needs=needs))
    view = View(tmp_path, "1", "none", None, {})
    seen = route.observe(Simulation(cell.target, view, Journal(), None, []), cell)
    assert seen.ended is ended
