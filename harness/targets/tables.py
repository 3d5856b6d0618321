"""AITER's tuned tables, read as AITER reads them: by gfx target and number of compute units.

In: a folder in AITER's layout (``*_tuned_gemm.csv`` and ``model_configs/*.csv``). Out: which rows answer a look-up.
It must not import AITER, torch or pandas. The layout and the keys are those of ``aiter/jit/core.py`` (get_config_file
merges ``model_configs/*NAME*`` into NAME) and ``aiter/ops/gemm_op_a8w8.py`` (get_GEMM_config_with_quant_type).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.model.target import Target

CONFIG_FILES: Mapping[str, str] = {
    "AITER_CONFIG_GEMM_A4W4_FILE": "a4w4_blockscale_tuned_gemm",
    "AITER_CONFIG_GEMM_A8W8_FILE": "a8w8_tuned_gemm",
    "AITER_CONFIG_GEMM_A8W8_BPRESHUFFLE_FILE": "a8w8_bpreshuffle_tuned_gemm",
    "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE_FILE": "a8w8_blockscale_tuned_gemm",
    "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE_BPRESHUFFLE_FILE": "a8w8_blockscale_bpreshuffle_tuned_gemm",
    "AITER_CONFIG_A8W8_BATCHED_GEMM_FILE": "a8w8_tuned_batched_gemm",
    "AITER_CONFIG_BF16_BATCHED_GEMM_FILE": "bf16_tuned_batched_gemm",
    "AITER_CONFIG_GEMM_BF16_FILE": "bf16_tuned_gemm",
    "AITER_CONFIG_FMOE_FILE": "tuned_fmoe",
}
"""Attribute of AITER's configuration object -> base name of the table."""


@dataclass(frozen=True)
class TunedRow:
    """One row of a table: its columns by name, as text, and where it stands."""

    columns: Mapping[str, str]
    source: str
    """``file.csv:12``: file name below the tables' folder and line."""


@lru_cache(maxsize=64)
def read_table(directory: Path, base: str) -> tuple[TunedRow, ...]:
    """All rows of table ``base``, those of ``model_configs/`` included, in file order.

    Raises:
        FileNotFoundError: the folder has no file of that name at all.
    """
    files = [path for path in [directory / f"{base}.csv"] if path.is_file()]
    files += sorted(path for path in directory.glob(f"model_configs/*{base}*.csv") if "untuned" not in path.name)
    if not files:
        raise FileNotFoundError(f"{base}.csv")
    return tuple(row for path in files for row in _read_file(path, path.relative_to(directory).as_posix()))


def _read_file(path: Path, name: str) -> list[TunedRow]:
    with path.open(newline="", encoding="utf-8") as handle:
        reader = csv.DictReader(handle)
        return [TunedRow(row, f"{name}:{reader.line_num}") for row in reader]


def find_row(directory: Path, base: str, key: Mapping[str, object]) -> TunedRow | None:
    """The first row whose columns equal ``key``; a column that the table does not have is not compared.

    Args:
        directory: folder in AITER's layout.
        base: base name of the table, one of ``CONFIG_FILES``.
        key: column -> value, compared as text: ``{"gfx": "gfx950", "cu_num": 256, "M": 16, "N": 7168, "K": 2048}``.

    Raises:
        FileNotFoundError: the folder has no such table.
    """
    rows = read_table(directory, base)
    names = tuple(name for name in key if rows and name in rows[0].columns)
    return _index(directory, base, names).get(tuple(str(key[name]) for name in names))


def nearest_row(directory: Path, base: str, target: Target, n: int, k: int) -> TunedRow | None:
    """The row that best explains why a shape counts as tuned: one of this target, else one of any target.

    Args:
        directory: folder in AITER's layout.
        base: base name of the table.
        target: whose gfx target and number of compute units the row should have.
        n: rows of the weight [N, K].
        k: columns of the weight.
    """
    own = {"gfx": target.gfx, "cu_num": target.cu_count}
    for key in ({**own, "N": n, "K": k}, {"N": n, "K": k}):
        try:
            row = find_row(directory, base, key)
        except FileNotFoundError:
            return None
        if row is not None:
            return row
    return None


@lru_cache(maxsize=256)
def _index(directory: Path, base: str, names: tuple[str, ...]) -> dict[tuple[str, ...], TunedRow]:
    index: dict[tuple[str, ...], TunedRow] = {}
    for row in read_table(directory, base):
        index.setdefault(tuple(str(row.columns.get(name)) for name in names), row)
    return index
