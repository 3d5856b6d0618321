from __future__ import annotations

from types import ModuleType

import pytest

from harness.model.errors import RunDirectoryError
from harness.records.layout import identity_in, run_identity, shard_name


def test_parts_of_one_run_have_one_identity(samples: ModuleType) -> None:
    parts = [
        samples.manifest(),
        samples.manifest(command="other", started="2027", finished="2028", cells=9, targets=("cpu",), tiers=("guard",)),
    ]
    assert len({run_identity(part) for part in parts}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"gfxloop": "0.2"},
        {"harness_digest": "h2"},
        {"matrix_digest": "m2"},
        {"versions": {"torch": "9"}},
        {"spec": "pypi:0.1"},
    ],
    ids=str,
)
def test_any_other_fact_is_another_run(samples: ModuleType, change: dict[str, object]) -> None:
    assert run_identity(samples.manifest(**change)) != run_identity(samples.manifest())


def test_a_shard_name_carries_the_identity() -> None:
    assert identity_in(shard_name("worker-1", "0123456789abcdef")) == "0123456789abcdef"
    assert identity_in("records-by-hand.jsonl") is None


@pytest.mark.parametrize("shard", ["", "a/b", "a.b", "..", "a b", "x" * 101])
def test_a_shard_id_cannot_leave_the_folder_or_hide_the_identity(shard: str) -> None:
    with pytest.raises(RunDirectoryError, match="not a shard id"):
        shard_name(shard, "0123456789abcdef")
