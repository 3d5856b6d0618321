"""A small matrix and a small table of device facts, so that these tests depend on neither matrix.yaml nor facts.py."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.matrix.load import Matrix, load_matrix
from harness.model.target import Fact, Platform, Target

TODAY = datetime.date(2026, 1, 1)

BIG = '{qkv: "16/tp*64 + max(4/tp, 1)*128 x 512", o: 512 x 1024/tp}'
BASE = """\
schema: 1
targets: [rocm, sm90, cpu]
environments:
  plain: {platforms: [cuda, cpu]}
  off: {platforms: [rocm], set: {USE: "0"}}
  on: {platforms: [rocm], set: {USE: "1"}}
kernels:
  linear:
    fp8: {fp8_token: {entry: mxfp8}, fp8_block: {entry: nvfp4, a16: true, needs: ['vllm.a:block']}}
    int8: {int8_token: {entry: int8, channelwise: true, static: false, symmetric: true}}
  allowlist:
    torch: {per_tensor: {symbol: 'a:P'}, row_wise: {symbol: 'a.b:R'}}
models:
  big: {source: "https://example.org/big", tp: [2, 8], kernels: [fp8], layers: %BIG%}
  small: {source: "https://example.org/small", tp: 1, kernels: [all], layers: {o: {shape: 64 x 64, source: a paper}}}
cells:
  - {name: linear, tier: route, surface: linear, targets: [all], environments: [all], models: [all]}
  - {name: allowlist, tier: route, surface: allowlist, targets: [all], environments: [off, plain]}
""".replace("%BIG%", BIG)


def _target(gfx: str, product: str, platform: Platform) -> Target:
    return Target(
        gfx=gfx,
        platform=platform,
        product=product,
        family="",
        market_name=product,
        device_id="",
        cu_count=1,
        vram_gib=1,
        capability=None,
        wavefront=64,
        lds_bytes=0,
        fact=Fact("made up for a test"),
    )


@pytest.fixture(scope="session")
def facts() -> dict[str, Target]:
    """Two products of one gfx target, another gfx target, and two other platforms."""
    rows = [
        _target("gfx942", "MI300X", Platform.ROCM),
        _target("gfx942", "MI308X", Platform.ROCM),
        _target("gfx1100", "RX7900XTX", Platform.ROCM),
        _target("sm90", "H100", Platform.CUDA),
        _target("cpu", "cpu", Platform.CPU),
    ]
    return {row.name: row for row in rows}


@pytest.fixture
def load(tmp_path: Path, facts: dict[str, Target]) -> Callable[..., Matrix]:
    """Load a text, or bytes, as a matrix; without one, the small matrix."""

    def loaded(text: str | bytes = BASE, today: datetime.date = TODAY) -> Matrix:
        path = tmp_path / "matrix.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_matrix(path, facts, today)

    return loaded


@pytest.fixture(scope="session")
def base() -> str:
    """The text of the small matrix, for a test to break."""
    return BASE
