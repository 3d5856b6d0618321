"""AITER as a simulated ROCm target sees it: none, a stand-in, a stand-in with real tuned tables, or the real package.

The stand-in answers what vLLM's gates look up. A look-up that it cannot answer is noted in the journal as unknown and
answered by ``assumed``; the probe asks each such question twice, under both assumptions, and calls the decision
indeterminate where the two differ. Nothing here is ever guessed silently.
"""

from __future__ import annotations

import csv
import enum
import importlib.machinery
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.model.target import Target
from harness.targets import tables
from harness.targets.journal import Journal, Lookup
from harness.targets.packages import DeviceFunction, StandInFinder

HINT = "pass --aiter tables:DIR with AITER's tuned tables, or --aiter path:DIR"


class AiterStandIn:
    """The stand-in package ``aiter``.

    Attributes:
        assumed: the answer to every look-up that the stand-in does not know.
        read_by_subject: the subject reads the tables' files by itself, so that without them nothing can answer.
    """

    def __init__(self, target: Target, directory: Path | None, journal: Journal, scratch: Path) -> None:
        self.assumed = True
        self.read_by_subject = False
        self._finder: _FilledFinder | None = None
        self._scratch = scratch
        self._target = target
        self._directory = directory
        self._journal = journal

    def install(self) -> None:
        """Make ``import aiter`` find the stand-in."""
        filled: Mapping[str, Mapping[str, object]] = {
            "aiter": {**_enums(), "dtypes": _Dtypes(self._target, self._journal)},
            "aiter.jit.utils.chip_info": self._chip(),
            "aiter.ops.gemm_op_a8w8": {
                **self._chip(),
                "AITER_CONFIGS": self._configs(),
                "get_GEMM_config_with_quant_type": self._gemm_config_with_quant_type,
            },
            "aiter.ops.gemm_op_a4w4": {**self._chip(), "get_GEMM_config": self._fp4_gemm_config},
            "aiter.ops.shuffle": {"shuffle_weight": self._shuffle_weight},
            "aiter.ops.triton.utils.gemm_config_utils": {"get_gemm_config": self._triton_gemm_config},
        }
        self._finder = _FilledFinder(self, filled, self._journal)
        sys.meta_path.insert(0, self._finder)

    def assume(self, answer: bool) -> None:
        """From now on, what is not known is so (True) or is not so (False)."""
        self.assumed = answer
        if self._finder is not None:
            self._finder.forget()

    def _chip(self) -> Mapping[str, Callable[[], object]]:
        target = self._target
        return {
            "get_gfx": lambda: target.gfx,
            "get_gfx_runtime": lambda: target.gfx,
            "get_cu_num": lambda: target.cu_count,
        }

    def _shuffle_weight(self, x: Any, layout: tuple[int, int] = (16, 16), **options: Any) -> Any:
        """Weights [..., N, K] in AITER's blocks, tagged as AITER tags them: it only moves elements, on any device.

        A block is ``layout[0]`` rows by twice ``layout[1]`` columns, and runs of 16 bytes stay together. Source:
        ``shuffle_weight`` of aiter/ops/shuffle.py, https://github.com/ROCm/aiter. Its interleaved forms are not here.
        """
        if any(options.values()):
            raise self._journal.limit(f"aiter.ops.shuffle.shuffle_weight({', '.join(sorted(options))})")
        rows, run = layout[0], 16 // x.element_size()
        blocks = x.unflatten(-2, (-1, rows)).unflatten(-1, (-1, 2 * layout[1] // run, run))
        moved = blocks.movedim(-4, -2).contiguous().view(x.shape)
        moved.is_shuffled = True
        return moved

    def _configs(self) -> object:
        """AITER's configuration object: attribute -> path of a tuned table."""
        path_of = self._path_of

        class Configs:
            def __getattr__(self, name: str) -> str:
                if name not in tables.CONFIG_FILES:
                    raise AttributeError(name)
                return path_of(name)

        return Configs()

    def _path_of(self, attribute: str) -> str:
        """Path of one table, its ``model_configs`` merged in as AITER does."""
        base = tables.CONFIG_FILES[attribute]
        if self._directory is None:
            if self.read_by_subject:
                self._journal.unanswerable.append(f"the rows of AITER's {base}.csv ({HINT})")
            return f"{base}.csv"
        try:
            path = merged_table(self._directory, base, self._scratch)
        except FileNotFoundError:
            self._journal.lookups.append(Lookup(f"AITER_CONFIGS.{attribute}", "no such table"))
            return f"{base}.csv"
        self._journal.lookups.append(Lookup(f"AITER_CONFIGS.{attribute}", "read", path.name))
        return str(path)

    def _gemm_config_with_quant_type(
        self, M: int, N: int, K: int, q_dtype_w: object, tuned_file: str
    ) -> Mapping[str, str] | None:
        key = {"M": M, "N": N, "K": K, "q_dtype_w": q_dtype_w}
        return self._tuned(Path(tuned_file).stem, key)

    def _fp4_gemm_config(self, M: int, N: int, K: int) -> Mapping[str, str] | None:
        return self._tuned("a4w4_blockscale_tuned_gemm", {"M": M, "N": N, "K": K})

    def _triton_gemm_config(
        self, config_name: str, M: int, N: int, K: int, *_: object, **__: object
    ) -> tuple[Any, bool]:
        """AITER's Triton configurations are JSON files of its own tree, which a stand-in does not have."""
        self._journal.unknown.append(
            f"whether AITER has {config_name} tuned for {self._target.gfx}, N={N}, K={K} (pass --aiter path:DIR)"
        )
        return {}, self.assumed

    def _tuned(self, base: str, key: Mapping[str, object]) -> Mapping[str, str] | None:
        full = {"gfx": self._target.gfx, "cu_num": self._target.cu_count, **key}
        words = ", ".join(f"{name}={value}" for name, value in full.items())
        if self._directory is None:
            shape = ", ".join(f"{name}={full[name]}" for name in ("gfx", "cu_num", "N", "K"))
            self._journal.unknown.append(f"whether AITER's {base}.csv has a row for {shape} ({HINT})")
            return {} if self.assumed else None
        try:
            row = tables.find_row(self._directory, base, full)
        except FileNotFoundError:
            self._journal.lookups.append(Lookup(f"{base}: {words}", "no such table"))
            return None
        if row is not None:
            self._journal.lookups.append(Lookup(f"{base}: {words}", "tuned", row.source))
        return row.columns if row else None


class _FilledFinder(StandInFinder):
    """A stand-in package whose named modules carry real attributes.

    Whether AITER has any other module, or another attribute of these, depends on its version: that is noted as unknown
    and answered by assumption.
    """

    def __init__(self, stand_in: AiterStandIn, filled: Mapping[str, Mapping[str, object]], journal: Journal) -> None:
        super().__init__("aiter", journal)
        self._stand_in = stand_in
        self._filled = filled
        self._known = {parent for name in filled for parent in _parents(name)}
        self._assumed: list[str] = []
        """Modules that were found by assumption."""

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a module that the stand-in has, or that AITER is assumed to have."""
        spec = super().find_spec(name, path, target)
        if spec is None or name in self._known:
            return spec
        if not self._assume(f"module {name}"):
            return None
        self._assumed.append(name)
        return spec

    def exec_module(self, module: types.ModuleType) -> None:
        """Fill a module that the stand-in has; its other attributes exist by assumption."""
        super().exec_module(module)
        vars(module).update(self._filled.get(module.__name__, {}))
        if module.__name__ not in self._known:
            return
        exists = vars(module)["__getattr__"]

        def __getattr__(name: str) -> object:
            found = exists(name)
            if not self._assume(f"{module.__name__}.{name}"):
                raise AttributeError(name)
            return found

        module.__getattr__ = __getattr__  # type: ignore[method-assign]

    def forget(self) -> None:
        """Take back the modules that were only assumed to exist."""
        while self._assumed:
            name = self._assumed.pop()
            parent, _, child = name.rpartition(".")
            sys.modules.pop(name, None)
            vars(sys.modules.get(parent, types.ModuleType(parent))).pop(child, None)

    def _assume(self, what: str) -> bool:
        self._journal.unknown.append(f"whether AITER has {what} (pass --aiter path:DIR)")
        return self._stand_in.assumed


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def merged_table(directory: Path, base: str, scratch: Path) -> Path:
    """A file with all rows of ``base``, ``model_configs`` included, for code that reads the file by itself."""
    path = scratch / "tables" / f"{base}.csv"
    if path.exists():
        return path
    rows = tables.read_table(directory, base)
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(rows[0].columns) if rows else []
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, fieldnames=columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row.columns for row in rows)
    return path


_FP8 = {"gfx942": "float8_e4m3fnuz", "gfx950": "float8_e4m3fn"}
"""``aiter.dtypes.fp8`` where every AITER says the same. Elsewhere it hangs on AITER: early versions raise KeyError and
later ones fall back to uint8. Source: ``defaultDtypes`` of ``aiter/utility/dtypes.py``."""


_PLAIN = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
}
"""Attributes of ``aiter.dtypes`` that are other names of torch's, in every AITER and on every target."""


class _Dtypes(DeviceFunction):
    """``aiter.dtypes``, of which ``fp8`` and the plain ones can be said."""

    def __init__(self, target: Target, journal: Journal) -> None:
        super().__init__("aiter.dtypes", journal)
        self._known = _PLAIN | ({"fp8": _FP8[target.gfx]} if target.gfx in _FP8 else {})

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name not in self._known:
            return super().__getattr__(name)
        import torch

        return getattr(torch, self._known[name])


def _enums() -> Mapping[str, object]:
    """The enumerations that vLLM reads at import. Source: ``aiter/ops/enum.py`` of amd-aiter 0.1.7."""
    activation = {"No": -1, "Silu": 0, "Gelu": 1, "Swiglu": 2}
    quantization = ("No", "per_Tensor", "per_Token", "per_1x32", "per_1x128", "per_128x128")
    return {
        "ActivationType": enum.IntEnum("ActivationType", activation),
        "QuantType": enum.IntEnum("QuantType", {name: number for number, name in enumerate(quantization)}),
    }
