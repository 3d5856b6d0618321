from __future__ import annotations

import dataclasses
import datetime
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.bundled import matrix_path
from harness.model.cell import Cell
from harness.model.errors import MatrixError, NothingSelectedError, UnservableError, UsageError
from harness.model.record import Ended, Evidence, Observation, Outcome, Record
from harness.model.subject import Aiter
from harness.probes import campaign as campaign_module
from harness.probes.campaign import (
    Campaign,
    Request,
    choose,
    installed_versions,
    open_campaign,
    require_stack,
    with_cells,
)
from harness.subjects import progress_on

TODAY = datetime.date(2026, 1, 1)
KNOWN = (
    'known_failures: [{surface: allowlist, targets: [gfx1100], issue: "https://example.org/7", owner: "@me", '
    "expires: 2026-06-30, reason: it is known}]"
)

EXCEPTED = (
    'exceptions: [{rule: I10, surface: platform, kernels: [on_gfx942], issue: "https://example.org/8", owner: "@me", '
    "expires: 2026-06-30, reason: on purpose}]"
)


class Answers:
    """Stands where the engine stands: answers every cell, in the opposite order."""

    def __init__(self, answer: Callable[[Cell], Observation]) -> None:
        self.answer = answer

    def observe(self, cells: Sequence[Cell], report: Callable[[Cell, Observation], None]) -> None:
        for cell in reversed(cells):
            report(cell, self.answer(cell))


Open = Callable[..., Campaign]


@pytest.fixture
def opened(tiny_tree: Path, tmp_path: Path) -> Open:
    """Opens a campaign on a small subject."""

    def make(*, observations: bool = True, today: datetime.date = TODAY, **words: Any) -> Campaign:
        request = Request(**{"matrix": matrix_path(), "subject": f"path:{tiny_tree}", **words})
        progress = progress_on(io.StringIO())
        return open_campaign(
            request, choose(request, today), cache=tmp_path, progress=progress, observations=observations
        )

    return make


@pytest.fixture
def without_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for a subject is a failure of the test."""

    def resolve(*_words: object, **_options: object) -> None:
        pytest.fail("the subject was looked for")

    monkeypatch.setattr(campaign_module, "resolve", resolve)


def _chosen(answer: str) -> Callable[[Cell], Observation]:
    return lambda _cell: Observation(ended=Ended.ANSWERED, chosen=answer)


def _run(campaign: Campaign, answer: Callable[[Cell], Observation]) -> tuple[Record, ...]:
    return dataclasses.replace(campaign, engine=Answers(answer)).run(lambda _record: None)  # type: ignore[arg-type]


# ---- wrong words are told before anything is fetched


@pytest.mark.usefixtures("without_fetching")
@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ({"targets": ("gfx943",)}, UsageError, "gfx94"),
        ({"kernels": ("fp8_blok",)}, UsageError, "Did you mean 'fp8_block'"),
        ({"targets": ("cpu",), "models": ("deepseek-v3",), "kernels": ("gates",)}, NothingSelectedError, "no cell"),
        ({"env": ("VLLM_X",)}, UsageError, "VLLM_X"),
        ({"packages": "+flash_atn"}, UsageError, "flash_attn"),
        ({"matrix": Path("no/such/matrix.yaml")}, MatrixError, "matrix.yaml"),
    ],
)
def test_a_wrong_word_costs_no_download(opened: Open, words: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        opened(**words)


@pytest.mark.usefixtures("without_fetching")
def test_without_torch_the_command_that_installs_it_is_named(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_module, "installed_versions", lambda: {"python": "3.11.7", "transformers": "5"})
    with pytest.raises(UnservableError, match="torch not installed here") as caught:
        opened()
    assert f"{sys.executable} -m pip install -r" in str(caught.value)
    lock = Path(str(caught.value).rpartition(" -r ")[2].rstrip("."))
    assert lock.is_file()


def test_with_the_stack_nothing_is_missing() -> None:
    require_stack()
    assert {"python", "torch", "transformers"} <= set(installed_versions())


def test_an_absent_distribution_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_module, "_VERSIONS", ("torch", "made-up-distribution"))
    assert set(installed_versions()) == {"python", "torch"}


# ---- what is opened


def test_words_choose_the_cells(opened: Open) -> None:
    campaign = opened(targets=("gfx942/MI300X",), kernels=("fp8_block",), models=("qwen3-0.6b",))
    assert {cell.target.name for cell in campaign.cells} == {"gfx942/MI300X"}
    assert {cell.kernel.name for cell in campaign.cells} == {"fp8_block"}
    (one, *_) = campaign.cells
    assert [cell.id for cell in opened(ids=(one.id,)).cells] == [one.id]


def test_profiles_that_contradict_env_are_left_out_with_a_note(opened: Open) -> None:
    campaign = opened(env=("VLLM_ROCM_USE_AITER=0",), targets=("gfx942/MI300X",), kernels=("fp8_block",))
    assert {cell.environment for cell in campaign.cells} == {"aiter_off", "batch_invariant"}
    assert any("aiter_on" in note and "VLLM_ROCM_USE_AITER" in note for note in campaign.notes)
    assert campaign.located.subject.env == {"VLLM_ROCM_USE_AITER": "0"}


def test_observations_are_kept_below_the_cache_unless_they_are_not_wanted(opened: Open, tmp_path: Path) -> None:
    assert opened().engine.cache == tmp_path / "observations"
    assert opened(observations=False).engine.cache is None


# ---- records


def test_records_come_in_the_order_of_the_matrix_and_are_reported_as_they_come(opened: Open) -> None:
    campaign = opened(targets=("cpu",), kernels=("facts",))
    reported: list[str] = []
    engine = Answers(_chosen("x"))
    replaced = dataclasses.replace(campaign, engine=engine)  # type: ignore[arg-type]
    records = replaced.run(lambda record: reported.append(record.id))
    assert [record.id for record in records] == [cell.id for cell in campaign.cells]
    assert reported == [cell.id for cell in reversed(campaign.cells)]


def test_a_rule_over_several_cells_is_judged_once_all_of_them_are_there(opened: Open) -> None:
    words = {"targets": ("gfx1200", "gfx1201"), "kernels": ("on_rdna4", "num_compute_units")}
    campaign = opened(**words)
    reported: list[str] = []
    engine = Answers(lambda cell: Observation(ended=Ended.ANSWERED, chosen=str(cell.target.gfx == "gfx1201")))
    records = dataclasses.replace(campaign, engine=engine).run(lambda record: reported.append(record.id))  # type: ignore[arg-type]
    assert sorted(reported) == sorted(cell.id for cell in campaign.cells)
    told = {(record.target, record.kernel): {finding.rule for finding in record.findings} for record in records}
    assert "I8" in told["gfx1200", "on_rdna4"] & told["gfx1201", "on_rdna4"]
    assert not told["gfx1200", "num_compute_units"]
    alone = with_cells(campaign, [cell for cell in campaign.cells if cell.target.gfx == "gfx1201"])
    assert all(finding.rule != "I8" for record in _run(alone, engine.answer) for finding in record.findings)


def test_other_cells_can_be_asked_of_the_same_subject(opened: Open) -> None:
    campaign = opened(targets=("cpu",), kernels=("facts",))
    narrowed = with_cells(campaign, campaign.cells[:2])
    assert (narrowed.cells, narrowed.located) == (campaign.cells[:2], campaign.located)


def test_the_matrix_s_expectations_judge(opened: Open) -> None:
    campaign = opened(targets=("gfx1100",), kernels=("allowlist",))
    assert {record.outcome for record in _run(campaign, _chosen("refused"))} == {Outcome.PASSED}
    assert {record.outcome for record in _run(campaign, _chosen("accepted"))} == {Outcome.FAILED}


@pytest.mark.parametrize(("aiter", "outcome"), [("none", Outcome.FAILED), ("stand-in", Outcome.PASSED)])
def test_an_expectation_may_depend_on_there_being_an_aiter(opened: Open, aiter: str, outcome: Outcome) -> None:
    words = {"targets": ("gfx942/MI300X",), "environments": ("aiter_on",), "kernels": ("is_enabled",)}
    campaign = opened(aiter=aiter, **words)
    assert campaign.located.subject.aiter == Aiter(spec=aiter, mode=aiter)  # type: ignore[arg-type]
    (record,) = _run(campaign, _chosen("True"))
    assert record.outcome is outcome


def test_a_known_failure_of_the_matrix_is_applied_until_it_expires(opened: Open, tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.yaml"
    text = matrix_path().read_text()
    assert "known_failures: []" in text
    matrix.write_text(text.replace("known_failures: []", KNOWN))
    campaign = opened(matrix=matrix, targets=("gfx1100",), kernels=("allowlist",))
    assert {record.outcome for record in _run(campaign, _chosen("accepted"))} == {Outcome.EXPECTED_FAILURE}
    assert {record.outcome for record in _run(campaign, _chosen("refused"))} == {Outcome.UNEXPECTED_PASS}
    with pytest.raises(MatrixError, match="expire"):
        opened(matrix=matrix, today=datetime.date(2026, 7, 1))


def test_an_exception_of_the_matrix_keeps_the_finding_in_sight_and_out_of_the_verdict(
    opened: Open, tmp_path: Path
) -> None:
    matrix = tmp_path / "matrix.yaml"
    text = matrix_path().read_text()
    assert "\nexceptions: []" in text
    matrix.write_text(text.replace("exceptions: []", EXCEPTED))
    campaign = opened(matrix=matrix, targets=("gfx942/MI300X",), kernels=("on_gfx942",))
    initialises = (Evidence(question="device initialised", answer="torch.cuda.mem_get_info by vllm/p.py:1 in f"),)
    seen = Observation(ended=Ended.ANSWERED, chosen="True", symbol="on_gfx942", evidence=initialises)
    (record,) = _run(campaign, lambda _cell: seen)
    assert (record.outcome, record.findings) == (Outcome.PASSED, ())
    told = next(item for item in record.evidence if item.question.startswith("I10 excepted: on_gfx942 initialises"))
    assert "https://example.org/8" in told.answer
    assert told.source.startswith("matrix.yaml:")
    with pytest.raises(MatrixError, match="the exception has expired"):
        opened(matrix=matrix, today=datetime.date(2026, 7, 1))


# ---- the manifest


def test_the_manifest_says_what_is_run_and_where_the_facts_come_from(opened: Open) -> None:
    campaign = opened(targets=("gfx942", "cpu"), kernels=("guard", "allowlist"))
    manifest = campaign.manifest("gfxloop check", "2026-01-01T00:00:00+00:00")
    assert manifest.gfxloop == harness.__version__
    assert (manifest.command, manifest.started, manifest.finished) == (
        "gfxloop check",
        "2026-01-01T00:00:00+00:00",
        None,
    )
    assert manifest.cells == len(campaign.cells)
    assert manifest.subject == campaign.located.subject
    assert manifest.matrix_digest == campaign.matrix.digest
    assert set(manifest.tiers) == {"route", "guard"}
    assert manifest.versions["torch"] == installed_versions()["torch"]
    names = {target.partition(" ")[0]: target for target in manifest.targets}
    assert set(names) == {"gfx942/MI300X", "gfx942/MI308X", "cpu"}
    fact = campaign.matrix.targets["gfx942/MI300X"].fact.source
    assert names["gfx942/MI300X"] == f"gfx942/MI300X simulated ({fact})"
