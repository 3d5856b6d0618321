from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.model.errors import RunDirectoryError
from harness.records import RunWriter, read_run
from harness.records.reader import read_manifest


def test_what_is_written_is_read_back_and_stamped_as_finished(samples: ModuleType, tmp_path: Path) -> None:
    run = samples.realistic(faulty=True, models=1)
    with RunWriter(tmp_path / "new" / "run", run.manifest, "a", clock=lambda: "2026-02-02T00:00:00+00:00") as writer:
        for record in run.records:
            writer.write(record)
        assert read_manifest(tmp_path / "new" / "run").finished is None
    back = read_run(tmp_path / "new" / "run")
    assert back.records == run.records
    assert back.notes == ()
    assert back.manifest == run.manifest.model_copy(update={"finished": "2026-02-02T00:00:00+00:00"})


def test_a_record_is_on_file_as_soon_as_write_returns(samples: ModuleType, tmp_path: Path) -> None:
    with RunWriter(tmp_path, samples.manifest(), "a") as writer:
        writer.write(samples.record())
        assert read_run(tmp_path).records == (samples.record(),)


def test_an_exception_leaves_the_run_unfinished(samples: ModuleType, tmp_path: Path) -> None:
    def interrupted() -> None:
        with RunWriter(tmp_path, samples.manifest(cells=2), "a") as writer:
            writer.write(samples.record())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    run = read_run(tmp_path)
    assert run.manifest.finished is None
    assert run.notes == ("1 of 2 records: the run was cut off",)


def test_a_folder_with_other_files_is_refused_and_left_alone(samples: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with (
        pytest.raises(RunDirectoryError, match=r"it holds 'thesis.tex' but no manifest.json"),
        RunWriter(tmp_path, samples.manifest(), "a"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_a_killed_write_of_the_manifest_left_is_no_obstacle(samples: ModuleType, tmp_path: Path) -> None:
    (tmp_path / ".writing-abc").write_text("{")
    with RunWriter(tmp_path, samples.manifest(), "a"):
        pass
    assert read_run(tmp_path).records == ()


def test_a_file_in_place_of_the_folder_is_refused(samples: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RunDirectoryError, match="file: exists already"),
        RunWriter(tmp_path / "file", samples.manifest(), "a"),
    ):
        pass


def test_a_second_writer_joins_the_same_run_and_widens_it(samples: ModuleType, tmp_path: Path) -> None:
    with RunWriter(tmp_path, samples.manifest(targets=("gfx942",), cells=2), "a") as writer:
        writer.write(samples.record("x"))
    with RunWriter(tmp_path, samples.manifest(targets=("gfx950",), cells=1, started="2025"), "b") as writer:
        writer.write(samples.record("y"))
    run = read_run(tmp_path)
    assert [record.id for record in run.records] == ["x", "y"]
    assert (run.manifest.targets, run.manifest.cells, run.manifest.started) == (("gfx942", "gfx950"), 2, "2025")


def test_another_run_in_the_folder_is_refused(samples: ModuleType, tmp_path: Path) -> None:
    with RunWriter(tmp_path, samples.manifest("pypi:0.28.0"), "a"):
        pass
    with (
        pytest.raises(RunDirectoryError, match=r"holds another run \(--subject pypi:0.28.0"),
        RunWriter(tmp_path, samples.manifest("pypi:0.29.0"), "b"),
    ):
        pass


def test_a_shard_is_never_opened_twice_and_the_manifest_is_left_alone(samples: ModuleType, tmp_path: Path) -> None:
    with RunWriter(tmp_path, samples.manifest(), "a"):
        pass
    before = read_manifest(tmp_path)
    with (
        pytest.raises(RunDirectoryError, match=r"records-a\..*: exists already"),
        RunWriter(tmp_path, samples.manifest(), "a"),
    ):
        pass
    assert read_manifest(tmp_path) == before
    assert before.finished is not None


def test_writing_outside_the_block_is_an_error(samples: ModuleType, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, samples.manifest(), "a")
    with pytest.raises(RunDirectoryError, match="is not open"):
        writer.write(samples.record())


@pytest.mark.parametrize("fault", ["short", "error"])
def test_a_full_disk_leaves_no_torn_line(
    samples: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        real(descriptor, data[:10])
        if fault == "error":
            raise OSError(errno.ENOSPC, "No space left on device")
        return 10

    with RunWriter(tmp_path, samples.manifest(), "a") as writer:
        writer.write(samples.record("x"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(RunDirectoryError, match=r"record not written: (only 10 of|No space left)"):
                writer.write(samples.record("y"))
        writer.write(samples.record("z"))
    run = read_run(tmp_path)
    assert [record.id for record in run.records] == ["x", "z"]
    assert run.notes == ()


CHILD = """
import sys
from pathlib import Path
from harness.model.record import Record
from harness.model.run import Manifest
from harness.records import RunWriter

manifest = Manifest.model_validate_json(sys.argv[1])
record = Record.model_validate_json(sys.argv[2])
with RunWriter(Path(sys.argv[3]), manifest, sys.argv[4]) as writer:
    for number in range(10**9):
        writer.write(record.model_copy(update={"id": f"{sys.argv[4]}/{number}"}))
        print(number, flush=True)
"""


def test_a_writer_killed_at_any_moment_loses_no_record_it_had_written(samples: ModuleType, tmp_path: Path) -> None:
    chance = random.Random(20260101)
    acknowledged: dict[str, int] = {}
    for shard in ("k0", "k1", "k2", "k3"):
        arguments = [samples.manifest().model_dump_json(), samples.record().model_dump_json(), str(tmp_path), shard]
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        ) as child:
            assert child.stdout is not None
            # The first writer lives long enough to leave a manifest; the others may die before their first record.
            for _ in range(chance.randint(0 if acknowledged else 1, 400)):
                assert child.stdout.readline()
            child.send_signal(signal.SIGKILL)
            lines = child.stdout.read().split("\n")
        assert child.returncode == -signal.SIGKILL
        last = [line for line in lines[:-1] if line]
        acknowledged[shard] = int(last[-1]) if last else -1
    ids = {record.id for record in read_run(tmp_path).records}
    for shard, number in acknowledged.items():
        assert {f"{shard}/{index}" for index in range(number + 1)} <= ids
        got = sum(id_.startswith(f"{shard}/") for id_ in ids)
        assert {id_ for id_ in ids if id_.startswith(f"{shard}/")} == {f"{shard}/{index}" for index in range(got)}
