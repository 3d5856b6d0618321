from __future__ import annotations

from pathlib import Path

import pytest

from harness.targets.facts import TARGETS
from harness.targets.tables import CONFIG_FILES, find_row, nearest_row, read_table

BASE = "a8w8_blockscale_bpreshuffle_tuned_gemm"
HEAD = "gfx,cu_num,M,N,K,kernelId,us"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model_configs").mkdir()
    _write(
        tmp_path / f"{BASE}.csv",
        HEAD,
        "gfx1250,256,16,7168,2048,3,9.5",
        "gfx942,80,16,1536,7168,1,5.0",
        "gfx942,304,16,1536,7168,2,4.0",
    )
    _write(tmp_path / "model_configs" / f"{BASE}_dsv3.csv", HEAD, "gfx950,256,32,576,7168,7,3.5")
    _write(tmp_path / "model_configs" / f"{BASE.replace('tuned', 'untuned')}_dsv3.csv", "M,N,K", "1,2,3")
    _write(tmp_path / "model_configs" / f"dsv3_untuned_{BASE}.csv", "M,N,K", "1,2,3")
    return tmp_path


def _write(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n")


def _key(gfx: str, cu_num: int, m: int, n: int, k: int) -> dict[str, object]:
    return {"gfx": gfx, "cu_num": cu_num, "M": m, "N": n, "K": k}


def test_a_row_counts_for_its_own_gfx_target_alone(folder: Path) -> None:
    assert find_row(folder, BASE, _key("gfx1250", 256, 16, 7168, 2048)) is not None
    assert find_row(folder, BASE, _key("gfx950", 256, 16, 7168, 2048)) is None


def test_a_row_counts_for_its_own_number_of_compute_units_alone(folder: Path) -> None:
    found = {cu: find_row(folder, BASE, _key("gfx942", cu, 16, 1536, 7168)) for cu in (80, 304, 228)}
    assert {cu: row.columns["kernelId"] for cu, row in found.items() if row} == {80: "1", 304: "2"}


def test_a_row_names_its_file_and_line(folder: Path) -> None:
    row = find_row(folder, BASE, _key("gfx942", 304, 16, 1536, 7168))
    assert row is not None
    assert row.source == f"{BASE}.csv:4"


def test_tables_of_single_models_are_part_of_the_table_and_untuned_lists_are_not(folder: Path) -> None:
    row = find_row(folder, BASE, _key("gfx950", 256, 32, 576, 7168))
    assert row is not None
    assert row.source == f"model_configs/{BASE}_dsv3.csv:2"
    assert len(read_table(folder, BASE)) == 4


def test_a_table_may_consist_of_model_files_alone(folder: Path) -> None:
    (folder / f"{BASE}.csv").unlink()
    assert [row.columns["gfx"] for row in read_table(folder, BASE)] == ["gfx950"]


def test_of_two_rows_of_one_key_the_first_counts(folder: Path) -> None:
    _write(folder / "a8w8_tuned_gemm.csv", HEAD, "gfx942,304,1,2,3,5,1.0", "gfx942,304,1,2,3,6,1.0")
    row = find_row(folder, "a8w8_tuned_gemm", _key("gfx942", 304, 1, 2, 3))
    assert row is not None
    assert row.columns["kernelId"] == "5"


def test_a_column_that_the_table_lacks_is_not_compared(folder: Path) -> None:
    _write(folder / "old_tuned_gemm.csv", "cu_num,M,N,K", "304,16,64,64")
    key = _key("gfx950", 304, 16, 64, 64)
    assert find_row(folder, "old_tuned_gemm", key) is not None
    assert find_row(folder, "old_tuned_gemm", {**key, "cu_num": 80}) is None


def test_a_missing_table_is_an_error_that_names_it(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a4w4_blockscale_tuned_gemm\.csv"):
        find_row(folder, "a4w4_blockscale_tuned_gemm", _key("gfx942", 304, 1, 1, 1))


def test_an_empty_table_has_no_row(folder: Path) -> None:
    _write(folder / "empty_tuned_gemm.csv", HEAD)
    assert find_row(folder, "empty_tuned_gemm", _key("gfx942", 304, 1, 1, 1)) is None


def test_a_short_line_is_a_row_without_the_missing_columns(folder: Path) -> None:
    _write(folder / "short_tuned_gemm.csv", HEAD, "gfx942,304,1")
    assert find_row(folder, "short_tuned_gemm", _key("gfx942", 304, 1, 1, 1)) is None


@pytest.mark.parametrize(
    ("target", "n", "k", "row"),
    [("gfx942/MI308X", 1536, 7168, "1"), ("gfx942/MI300X", 1536, 7168, "2"), ("gfx950/MI350X", 7168, 2048, "3")],
)
def test_the_nearest_row_is_the_target_s_own_or_else_another_s(
    folder: Path, target: str, n: int, k: int, row: str
) -> None:
    found = nearest_row(folder, BASE, TARGETS[target], n, k)
    assert found is not None
    assert found.columns["kernelId"] == row


def test_a_shape_or_a_table_that_is_nowhere_has_no_nearest_row(folder: Path) -> None:
    assert nearest_row(folder, BASE, TARGETS["gfx950/MI350X"], 7, 7) is None
    assert nearest_row(folder, "no_tuned_gemm", TARGETS["gfx950/MI350X"], 7168, 2048) is None


def test_the_real_tables_have_what_pr_51692_was_gated_by(aiter_tables: Path) -> None:
    rows = read_table(aiter_tables, BASE)
    on_gfx950 = {(row.columns["N"], row.columns["K"]) for row in rows if row.columns["gfx"] == "gfx950"}
    assert ("7168", "2048") in on_gfx950
    assert {row.columns["cu_num"] for row in rows if row.columns["gfx"] == "gfx942"} >= {"80"}
    assert all(row.source.count(":") == 1 for row in rows)


def test_the_real_folder_has_every_table_that_the_stand_in_knows(aiter_tables: Path) -> None:
    for base in CONFIG_FILES.values():
        assert read_table(aiter_tables, base)
