"""Collectives of one rank among N: shapes, and nothing else."""

from __future__ import annotations

import pytest

from harness.adapters.parallel_state import ShapeCommunicator

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("collective", "dim", "shape"),
    [
        ("all_gather", -1, (4, 64)),
        ("all_gather", 0, (32, 8)),
        ("gather", 0, (32, 8)),
        ("reduce_scatter", -1, (4, 1)),
        ("all_reduce", None, (4, 8)),
    ],
)
def test_a_collective_gives_the_shape_that_it_gives_among_n_ranks(
    collective: str, dim: int | None, shape: tuple[int, ...]
) -> None:
    tensor = torch.empty(4, 8, device="meta")
    words = {} if dim is None else {"dim": dim}
    assert tuple(getattr(ShapeCommunicator(8), collective)(tensor, **words).shape) == shape
