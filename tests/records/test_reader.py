from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.errors import RunDirectoryError
from harness.records import RunWriter, read_run
from harness.records.layout import run_identity, shard_name


def written(samples: ModuleType, folder: Path, shard: str, *ids: str, **overrides: object) -> Path:
    """A run directory with one record an id; returns the shard's path."""
    with RunWriter(folder, samples.manifest(**overrides), shard) as writer:
        for id_ in ids:
            writer.write(samples.record(id_))
    return folder / shard_name(shard, run_identity(samples.manifest(**overrides)))


@settings(max_examples=60)
@given(cut=st.integers(min_value=0, max_value=10**6))
def test_wherever_a_shard_is_cut_the_whole_records_are_read(samples: ModuleType, cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shard = written(samples, Path(folder), "a", "x", "y", "z", cells=3)
        content = shard.read_bytes()
        kept = content[: cut % (len(content) + 1)]
        shard.write_bytes(kept)
        run = read_run(Path(folder))
    whole = kept.count(b"\n")
    assert [record.id for record in run.records][:whole] == ["x", "y", "z"][:whole]
    assert len(run.records) - whole in (0, 1)
    assert (len(run.records) < 3) == any("the run was cut off" in note for note in run.notes)
    tail = kept.rpartition(b"\n")[2]
    assert any("half a record" in note for note in run.notes) == (bool(tail) and len(run.records) == whole)


def test_half_a_last_line_is_a_note_that_names_it(samples: ModuleType, tmp_path: Path) -> None:
    shard = written(samples, tmp_path, "a", "x", "y", cells=2)
    shard.write_bytes(shard.read_bytes()[:-30])
    run = read_run(tmp_path)
    assert [record.id for record in run.records] == ["x"]
    assert run.notes == (
        f"{shard.name}:2: half a record at the end was ignored; its writer was stopped",
        "1 of 2 records: the run was cut off",
    )


@pytest.mark.parametrize("damage", [b"{\n", b"\n", b"null\n", b'{"id": "x"}\n', b"\xff\xfe\n", b'{"id": "\\ud800"}\n'])
def test_a_damaged_whole_line_is_an_error_with_its_place(samples: ModuleType, tmp_path: Path, damage: bytes) -> None:
    shard = written(samples, tmp_path, "a", "x")
    shard.write_bytes(damage + shard.read_bytes())
    with pytest.raises(RunDirectoryError, match=rf"{shard.name}:1: not a record: .*\. The line is damaged"):
        read_run(tmp_path)


def test_a_damaged_last_line_that_was_ended_is_an_error_too(samples: ModuleType, tmp_path: Path) -> None:
    shard = written(samples, tmp_path, "a", "x")
    shard.write_bytes(shard.read_bytes() + b"{}\n")
    with pytest.raises(RunDirectoryError, match=f"{shard.name}:2: not a record: id: Field required"):
        read_run(tmp_path)


def test_identical_duplicates_are_merged_silently(samples: ModuleType, tmp_path: Path) -> None:
    written(samples, tmp_path, "a", "x", "y")
    written(samples, tmp_path, "b", "x")
    run = read_run(tmp_path)
    assert [record.id for record in run.records] == ["x", "y"]
    assert run.notes == ()


def test_of_contradicting_records_the_last_wins_with_a_note(samples: ModuleType, tmp_path: Path) -> None:
    written(samples, tmp_path, "a", "x", "y")
    with RunWriter(tmp_path, samples.manifest(), "b") as writer:
        writer.write(samples.record("x", chosen="Other"))
    run = read_run(tmp_path)
    assert [(record.id, record.chosen) for record in run.records] == [("x", "Other"), ("y", samples.TRITON)]
    assert run.notes == ("x: 2 different records; the last one is used",)


def test_runs_are_merged_by_copying_shards(samples: ModuleType, tmp_path: Path) -> None:
    written(samples, tmp_path / "one", "a", "x")
    shutil.copy(written(samples, tmp_path / "two", "b", "y"), tmp_path / "one")
    assert [record.id for record in read_run(tmp_path / "one").records] == ["x", "y"]


def test_a_shard_of_another_run_is_refused(samples: ModuleType, tmp_path: Path) -> None:
    written(samples, tmp_path / "one", "a", "x")
    shutil.copy(written(samples, tmp_path / "two", "b", "y", matrix_digest="m2"), tmp_path / "one")
    with pytest.raises(RunDirectoryError, match="a shard of another run"):
        read_run(tmp_path / "one")


def test_a_later_schema_version_names_the_gfxloop_that_reads_it(samples: ModuleType, tmp_path: Path) -> None:
    body = samples.manifest().model_dump(mode="json") | {"schema_version": 99, "gfxloop": "7.0", "new_field": 1}
    (tmp_path / "manifest.json").write_text(json.dumps(body))
    with pytest.raises(
        RunDirectoryError, match=r"of a later gfxloop \(got 99; expected up to 1\)\. Read it with gfxloop 7\.0"
    ):
        read_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"schema_version": "x"}', "[" * 100_000])
def test_a_broken_manifest_is_an_error_that_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(
        RunDirectoryError, match=r"manifest.json: .*\. Give a folder that `gfxloop check --out` wrote\."
    ):
        read_run(tmp_path)


def test_what_is_not_a_run_directory_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="there is no such folder"):
        read_run(tmp_path / "absent")
    with pytest.raises(RunDirectoryError, match=r"not a run directory: no manifest\.json in it"):
        read_run(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="not a folder"):
        read_run(tmp_path / "file")
