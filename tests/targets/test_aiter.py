from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.model.record import Record
from harness.targets.aiter import AiterStandIn, merged_table
from harness.targets.facts import TARGETS
from harness.targets.journal import Journal, Lookup, SimulationLimit
from harness.targets.tables import CONFIG_FILES

torch = pytest.importorskip("torch")  # before a stand-in swaps sys.modules: a process can import it only once

BASE = "a8w8_bpreshuffle_tuned_gemm"
FILE = "AITER_CONFIG_GEMM_A8W8_BPRESHUFFLE_FILE"
GFX950 = "gfx950/MI350X"


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables with one row for gfx950 and one for gfx942 with 80 compute units."""
    tables = tmp_path / "tables"
    (tables / "model_configs").mkdir(parents=True)
    head = "gfx,cu_num,M,N,K,q_dtype_w,kernelId"
    (tables / f"{BASE}.csv").write_text(f"{head}\ngfx950,256,16,1536,7168,torch.float8_e4m3fn,11\n")
    (tables / "model_configs" / f"{BASE}_x.csv").write_text(
        f"{head}\ngfx942,80,16,1536,7168,torch.float8_e4m3fnuz,12\n"
    )
    return tables


@pytest.fixture
def stand_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, journal: Journal
) -> Callable[[str, Path | None], AiterStandIn]:
    """Installs a stand-in, for the length of the test, as package ``aiter``."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())

    def install(target: str = GFX950, directory: Path | None = None) -> AiterStandIn:
        made = AiterStandIn(TARGETS[target], directory, journal, tmp_path / "scratch")
        made.install()
        return made

    return install


Install = Callable[..., AiterStandIn]


def _gemm() -> Any:
    return importlib.import_module("aiter.ops.gemm_op_a8w8")


def _look_up(n: int = 1536, k: int = 7168, dtype: str = "torch.float8_e4m3fn") -> Any:
    gemm = _gemm()
    return gemm.get_GEMM_config_with_quant_type(16, n, k, dtype, getattr(gemm.AITER_CONFIGS, FILE))


def test_the_chip_is_the_target_s(stand_in: Install) -> None:
    stand_in("gfx942/MI308X")
    for name in ("aiter.jit.utils.chip_info", "aiter.ops.gemm_op_a8w8", "aiter.ops.gemm_op_a4w4"):
        module = importlib.import_module(name)
        assert (module.get_gfx(), module.get_cu_num()) == ("gfx942", 80)


def test_a_shuffled_weight_has_aiter_s_blocks_and_says_so(stand_in: Install, journal: Journal) -> None:
    torch = importlib.import_module("torch")
    stand_in()
    plain = torch.arange(2 * 32 * 64, dtype=torch.int32).bfloat16().view(2, 32, 64)
    shuffled = importlib.import_module("aiter.ops.shuffle").shuffle_weight(plain, layout=(16, 16))
    # written for one element: blocks of 16 rows by 32 columns one after the other, in each 8 columns of every row
    for e, n, k in ((0, 0, 0), (0, 3, 9), (1, 17, 40), (1, 31, 63)):
        block = (n // 16) * 2 + k // 32
        place = block * 512 + (k % 32) // 8 * 128 + n % 16 * 8 + k % 8
        assert shuffled[e].flatten()[place] == plain[e, n, k]
    assert shuffled.is_shuffled
    assert not hasattr(plain, "is_shuffled")
    assert journal.unanswerable == []


def test_an_interleaved_shuffle_is_a_limit(stand_in: Install, journal: Journal) -> None:
    torch = importlib.import_module("torch")
    stand_in()
    with pytest.raises(SimulationLimit):
        importlib.import_module("aiter.ops.shuffle").shuffle_weight(torch.zeros(32, 64), is_guinterleave=True)
    assert journal.unanswerable == ["what aiter.ops.shuffle.shuffle_weight(is_guinterleave) does"]


def test_without_tables_a_look_up_is_noted_as_unknown_and_answered_as_assumed(
    stand_in: Install, journal: Journal
) -> None:
    made = stand_in()
    for assumed in (True, False):
        made.assumed = assumed
        assert (_look_up() is not None) is assumed
    assert len(journal.unknown) == 2
    assert journal.unknown[0].startswith(
        f"whether AITER's {BASE}.csv has a row for gfx=gfx950, cu_num=256, N=1536, K=7168"
    )
    assert "--aiter tables:DIR" in journal.unknown[0]
    assert not journal.unanswerable


def test_with_tables_the_row_answers_and_its_line_is_the_source(
    stand_in: Install, folder: Path, journal: Journal
) -> None:
    made = stand_in(GFX950, folder)
    made.assumed = False
    assert _look_up()["kernelId"] == "11"
    assert journal.unknown == []
    assert journal.lookups[-1] == Lookup(
        f"{BASE}: gfx=gfx950, cu_num=256, M=16, N=1536, K=7168, q_dtype_w=torch.float8_e4m3fn", "tuned", f"{BASE}.csv:2"
    )


@pytest.mark.parametrize(("target", "tuned"), [("gfx942/MI308X", "12"), ("gfx942/MI300X", None), ("gfx1250", None)])
def test_a_row_of_another_target_is_no_answer_whatever_is_assumed(
    stand_in: Install, folder: Path, journal: Journal, target: str, tuned: str | None
) -> None:
    made = stand_in(target, folder)
    made.assumed = True
    row = _look_up(dtype="torch.float8_e4m3fnuz")
    assert (row and row["kernelId"]) == tuned
    assert journal.unknown == []


def test_the_data_type_is_part_of_the_key(stand_in: Install, folder: Path) -> None:
    stand_in(GFX950, folder)
    assert _look_up(dtype="torch.float8_e4m3fnuz") is None


def test_a_missing_table_has_no_row_and_says_so(stand_in: Install, folder: Path, journal: Journal) -> None:
    stand_in(GFX950, folder)
    assert importlib.import_module("aiter.ops.gemm_op_a4w4").get_GEMM_config(16, 64, 64) is None
    assert journal.lookups[-1].answer == "no such table"
    assert journal.unknown == journal.unanswerable == []


def test_the_configuration_object_gives_a_file_with_the_rows_of_all_files(
    stand_in: Install, folder: Path, journal: Journal
) -> None:
    stand_in(GFX950, folder)
    path = Path(getattr(_gemm().AITER_CONFIGS, FILE))
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["gfx", "gfx950", "gfx942"]
    assert journal.lookups == [Lookup(f"AITER_CONFIGS.{FILE}", "read", f"{BASE}.csv")]


def test_the_configuration_object_has_no_other_attribute(stand_in: Install) -> None:
    stand_in()
    with pytest.raises(AttributeError):
        _gemm().AITER_CONFIGS.AITER_CONFIG_OF_THE_FUTURE  # noqa: B018 - the look-up is the point
    for name in CONFIG_FILES:
        assert getattr(_gemm().AITER_CONFIGS, name).endswith(".csv")


def test_a_subject_that_reads_the_tables_by_itself_cannot_be_answered_without_them(
    stand_in: Install, folder: Path, journal: Journal
) -> None:
    made = stand_in()
    made.read_by_subject = True
    assert getattr(_gemm().AITER_CONFIGS, FILE) == f"{BASE}.csv"
    assert journal.unanswerable == [
        f"the rows of AITER's {BASE}.csv (pass --aiter tables:DIR with AITER's tuned tables, or --aiter path:DIR)"
    ]


def test_aiter_s_triton_configurations_are_never_known_to_a_stand_in(
    stand_in: Install, folder: Path, journal: Journal
) -> None:
    made = stand_in(GFX950, folder)
    made.assumed = False
    ask = importlib.import_module("aiter.ops.triton.utils.gemm_config_utils").get_gemm_config
    assert ask("GEMM-A8W8", 16, 64, 128) == ({}, False)
    assert journal.unknown == ["whether AITER has GEMM-A8W8 tuned for gfx950, N=64, K=128 (pass --aiter path:DIR)"]


def test_anything_else_of_aiter_exists_and_a_call_of_it_is_a_limit(stand_in: Install, journal: Journal) -> None:
    stand_in()
    aiter = importlib.import_module("aiter")
    assert aiter.ActivationType.Silu == 0
    assert aiter.QuantType.per_1x128.name == "per_1x128"
    with pytest.raises(SimulationLimit):
        aiter.gemm_a8w8(1)
    assert journal.unanswerable == ["what aiter.gemm_a8w8 does"]


def test_a_module_that_only_some_aiter_has_exists_as_long_as_that_is_assumed(
    stand_in: Install, journal: Journal
) -> None:
    made = stand_in()
    name = "aiter.ops.triton.of_the_future"
    assert importlib.import_module(name).__name__ == name
    made.assume(False)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    assert not hasattr(importlib.import_module("aiter.ops.triton"), "of_the_future")
    made.assume(True)
    assert importlib.import_module(name).__name__ == name
    assert set(journal.unknown) == {
        f"whether AITER has {what} (pass --aiter path:DIR)"
        for what in (f"module {name}", "aiter.ops.triton.of_the_future")
    }


def test_an_attribute_that_only_some_aiter_has_exists_as_long_as_that_is_assumed(
    stand_in: Install, journal: Journal
) -> None:
    made = stand_in()
    assert hasattr(_gemm(), "gemm_of_the_future")
    made.assume(False)
    assert not hasattr(_gemm(), "gemm_of_the_future")
    assert _gemm().get_gfx() == "gfx950", "what the stand-in knows stays"
    assert set(journal.unknown) == {
        "whether AITER has aiter.ops.gemm_op_a8w8.gemm_of_the_future (pass --aiter path:DIR)"
    }


@pytest.mark.parametrize(
    ("target", "name"),
    [("gfx942/MI300X", "float8_e4m3fnuz"), ("gfx942/MI308X", "float8_e4m3fnuz"), (GFX950, "float8_e4m3fn")],
)
def test_the_fp8_format_that_every_aiter_gives_a_target_is_known(stand_in: Install, target: str, name: str) -> None:
    stand_in(target)
    assert importlib.import_module("aiter").dtypes.fp8 is getattr(torch, name)


@pytest.mark.parametrize(("name", "of_torch"), [("bf16", "bfloat16"), ("fp16", "float16"), ("i32", "int32")])
def test_a_data_type_that_is_another_name_of_torch_s_is_known_everywhere(
    stand_in: Install, name: str, of_torch: str
) -> None:
    stand_in("gfx1201/RX9070XT")
    assert getattr(importlib.import_module("aiter").dtypes, name) is getattr(torch, of_torch)


def test_an_fp8_format_that_hangs_on_aiter_s_version_is_not_guessed(stand_in: Install, journal: Journal) -> None:
    stand_in("gfx1201/RX9070XT")
    with pytest.raises(SimulationLimit, match=r"aiter\.dtypes\.fp8"):
        _ = importlib.import_module("aiter").dtypes.fp8
    assert journal.unanswerable == ["what aiter.dtypes.fp8 does"]


def test_a_merged_table_is_written_once(folder: Path, tmp_path: Path) -> None:
    first = merged_table(folder, BASE, tmp_path / "scratch")
    first.write_text("kept")
    assert merged_table(folder, BASE, tmp_path / "scratch").read_text() == "kept"


# ---- real vLLM on the stand-in


@pytest.fixture(scope="module")
def guessed(routed: Callable[..., dict[str, Record]]) -> dict[str, Record]:
    """FP8 layers of DeepSeek-V3 and the gates of its tuned tables on gfx950, with no table to look into."""
    kernels = ["fp8_block", "fp8_token_channel", "tuned_gate"]
    words = {"targets": ["gfx950"], "environments": ["aiter_on"], "kernels": kernels, "models": ["deepseek-v3"]}
    return routed("0.33.0", words)


def test_a_gate_that_hangs_on_a_row_is_indeterminate_and_says_on_which(guessed: dict[str, Record]) -> None:
    gates = [record for record in guessed.values() if record.kernel == "is_per_token_w8a8_gemm_tuned"]
    assert gates
    for record in gates:
        assert record.outcome == "indeterminate"
        assert record.chosen is None
        assert f"N={record.shape[0]}, K={record.shape[1]}" in record.reason  # type: ignore[index]
        assert "If so: True; if not: False" in record.reason


def test_a_decision_that_no_row_can_change_is_made_without_tables(guessed: dict[str, Record]) -> None:
    block = [record for record in guessed.values() if record.kernel == "fp8_block"]
    assert {record.chosen for record in block} == {"AiterFp8BlockScaledMMKernel"}
    assert {record.outcome for record in block} == {"passed"}


def test_a_decision_that_a_row_can_change_names_both_ways(guessed: dict[str, Record]) -> None:
    undecided = [record for record in guessed.values() if record.kernel == "fp8_token_channel"]
    assert {record.outcome for record in undecided} == {"indeterminate"}
    for record in undecided:
        assert "If so: AiterPreshuffledPerTokenFp8ScaledMMLinearKernel; if not: " in record.reason
