from __future__ import annotations

import dataclasses
import gzip
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.cell import Cell, Layer
from harness.model.record import Candidate, Category, Ended, Evidence, Finding, Observation
from harness.model.subject import Aiter, Subject
from harness.probes import cache
from harness.probes.cache import ObservationCache, cell_digest, harness_digest, installed_digest, job_digest
from harness.targets.facts import TARGETS

SEEN = Observation(
    ended=Ended.ANSWERED,
    chosen="Fast",
    symbol="Fast.is_supported",
    candidates=(Candidate(name="Slow", accepted=False, reason="no", category=Category.SHAPE),),
    evidence=(Evidence(question="q", answer="a", source="f.csv:1"),),
    findings=(Finding(rule="r", symbol="s", message="m"),),
)
OTHER = Observation(ended=Ended.REFUSED, detail="no kernel")


# ---- the store


def test_what_is_kept_is_what_was_seen(tmp_path: Path) -> None:
    ObservationCache(tmp_path / "new").save("job", {"a": SEEN, "b": OTHER})
    assert ObservationCache(tmp_path / "new").load("job") == {"a": SEEN, "b": OTHER}
    assert ObservationCache(tmp_path / "new").load("other job") == {}


def test_without_a_folder_nothing_is_kept() -> None:
    off = ObservationCache(None)
    off.save("job", {"a": SEEN})
    assert off.load("job") == {}


@pytest.mark.parametrize("ended", [Ended.DIED, Ended.TIMED_OUT])
def test_what_may_be_the_machine_s_doing_is_never_kept(tmp_path: Path, ended: Ended) -> None:
    store = ObservationCache(tmp_path)
    store.save("job", {"a": Observation(ended=ended, detail="x")})
    assert list(tmp_path.iterdir()) == []
    store.save("job", {"a": SEEN})
    store.save("job", {"a": Observation(ended=ended, detail="x"), "b": OTHER})
    assert store.load("job") == {"a": SEEN, "b": OTHER}


@pytest.mark.parametrize("ended", [ended for ended in Ended if ended not in (Ended.DIED, Ended.TIMED_OUT)])
def test_every_other_end_is_kept(tmp_path: Path, ended: Ended) -> None:
    ObservationCache(tmp_path).save("job", {"a": Observation(ended=ended, detail="x")})
    assert ObservationCache(tmp_path).load("job")["a"].ended is ended


def _truncated(body: bytes) -> bytes:
    return body[: len(body) // 2]


BROKEN: Mapping[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "truncated": _truncated,
    "without its last bytes": lambda body: body[:-4],
    "not gzip": gzip.decompress,
    "not JSON": lambda _: gzip.compress(b"{"),
    "not text": lambda _: gzip.compress(b"\xff\xfe\xfd"),
    "a list": lambda _: gzip.compress(b"[]"),
    "a number": lambda _: gzip.compress(b"7"),
    "no observation": lambda _: gzip.compress(json.dumps({"a": {"ended": "answered", "winner": "x"}}).encode()),
    "a flipped byte": lambda body: body[:20] + bytes([body[20] ^ 255]) + body[21:],
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_cannot_be_read_counts_as_absent_and_is_replaced(tmp_path: Path, how: str) -> None:
    store = ObservationCache(tmp_path)
    store.save("job", {"a": SEEN})
    path = tmp_path / "job.json.gz"
    path.write_bytes(BROKEN[how](path.read_bytes()))
    assert store.load("job") == {}
    store.save("job", {"b": OTHER})
    assert store.load("job") == {"b": OTHER}


@given(st.binary(max_size=200))
def test_no_content_of_a_file_is_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-content"
    folder.mkdir(exist_ok=True)
    (folder / "job.json.gz").write_bytes(content)
    assert ObservationCache(folder).load("job") == {}


def test_a_second_writer_adds_to_what_is_there_and_its_own_answer_wins(tmp_path: Path) -> None:
    ObservationCache(tmp_path).save("job", {"a": SEEN, "b": SEEN})
    ObservationCache(tmp_path).save("job", {"b": OTHER, "c": OTHER})
    assert ObservationCache(tmp_path).load("job") == {"a": SEEN, "b": OTHER, "c": OTHER}


def test_writers_at_the_same_time_lose_nothing_of_each_other(tmp_path: Path) -> None:
    gate = threading.Barrier(8)

    def write(writer: int) -> None:
        gate.wait()
        for turn in range(5):
            ObservationCache(tmp_path).save("job", {f"{writer}-{turn}": SEEN})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(ObservationCache(tmp_path).load("job")) == {
        f"{writer}-{turn}" for writer in range(8) for turn in range(5)
    }
    assert not list(tmp_path.glob("*.tmp"))


def test_the_oldest_files_go_when_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(cache, "_KEEP", 3)
    store = ObservationCache(tmp_path)
    for number in range(5):
        store.save(f"job{number}", {"a": SEEN})
        os.utime(tmp_path / f"job{number}.json.gz", (number, number))
    store.save("job5", {"a": SEEN})
    assert sorted(path.name for path in tmp_path.glob("*.gz")) == ["job3.json.gz", "job4.json.gz", "job5.json.gz"]


# ---- what a digest hangs on

SUBJECT = Subject(spec="path:a", version="1", digest="d", aiter=Aiter(spec="tables:x", mode="tables", digest="t"))
TARGET = TARGETS["gfx942/MI300X"]


def _job(**changed: object) -> str:
    parts = {"subject": SUBJECT, "target": TARGET, "env": {"A": "1", "B": "2"}, "presence": {"p": True, "q": False}}
    return job_digest(**{**parts, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": SUBJECT.model_copy(update={"digest": "e"})},
        {"subject": SUBJECT.model_copy(update={"version": "2"})},
        {"subject": SUBJECT.model_copy(update={"env": {"X": "1"}})},
        {"subject": SUBJECT.model_copy(update={"packages": {"p": True}})},
        {"subject": SUBJECT.model_copy(update={"aiter": Aiter(spec="tables:x", mode="tables", digest="u")})},
        {"subject": SUBJECT.model_copy(update={"aiter": Aiter(spec="none", mode="none")})},
        {"target": TARGETS["gfx942/MI308X"]},
        {"target": dataclasses.replace(TARGET, lds_bytes=1)},
        {"target": dataclasses.replace(TARGET, market_name="x")},
        {"env": {"A": "1", "B": "3"}},
        {"env": {"A": "1"}},
        {"presence": {"p": False, "q": False}},
    ],
)
def test_whatever_can_change_an_answer_changes_the_job(changed: Mapping[str, object]) -> None:
    assert _job(**changed) != _job()


def test_how_a_thing_is_spelled_changes_nothing() -> None:
    spelled = SUBJECT.model_copy(update={"spec": "pypi:1", "aiter": Aiter(spec="tables:y", mode="tables", digest="t")})
    assert _job(subject=spelled, env={"B": "2", "A": "1"}, presence={"q": False, "p": True}) == _job()


def test_another_harness_or_another_installation_is_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _job()
    for name in ("harness_digest", "installed_digest"):
        with monkeypatch.context() as patch:
            patch.setattr(cache, name, lambda: "another")
            assert _job() != before
    assert _job() == before


def test_whatever_is_asked_changes_the_cell(make_cell: Callable[..., Cell]) -> None:
    cells = [
        make_cell("fp8", scheme={"entry": "fp8", "group": 128}, layer=Layer("o", 64, 128)),
        make_cell("fp8", scheme={"entry": "fp8", "group": 64}, layer=Layer("o", 64, 128)),
        make_cell("fp8", scheme={"entry": "fp8"}, layer=Layer("o", 64, 128)),
        make_cell("fp8", scheme={"entry": "fp8", "group": 128}, layer=Layer("o", 64, 256)),
        make_cell("fp8", scheme={"entry": "fp8", "group": 128}, layer=Layer("o", 128, 128)),
        make_cell("fp8", scheme={"entry": "fp8", "group": 128}),
        make_cell("fp9", scheme={"entry": "fp8", "group": 128}, layer=Layer("o", 64, 128)),
        make_cell("fp8", scheme={"entry": "fp8", "group": 128}, layer=Layer("o", 64, 128), target="xpu"),
        make_cell("fp8", scheme={"entry": "fp8", "group": 128}, layer=Layer("o", 64, 128), family="other"),
        make_cell("fp8", scheme={"entry": "fp8", "group": "128"}, layer=Layer("o", 64, 128)),
    ]
    assert len({cell_digest(cell) for cell in cells}) == len(cells)
    again = make_cell("fp8", scheme={"group": 128, "entry": "fp8"}, layer=Layer("o", 64, 128))
    assert cell_digest(again) == cell_digest(cells[0])


def test_any_source_file_of_the_harness_is_part_of_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "cache.py").write_text("a = 1\n")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "probes" / "cache.py"))

    def digest() -> str:
        return harness_digest.__wrapped__()

    seen = [digest()]
    (tmp_path / "probes" / "cache.py").write_text("a = 2\n")
    seen.append(digest())
    (tmp_path / "new.py").write_text("")
    seen.append(digest())
    (tmp_path / "new.py").rename(tmp_path / "renamed.py")
    seen.append(digest())
    assert len(set(seen)) == 4
    (tmp_path / "notes.txt").write_text("no source")
    assert digest() == seen[-1]


def test_any_installed_version_is_part_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(**versions: str | None) -> str:
        found = [SimpleNamespace(metadata={"Name": name}, version=version) for name, version in versions.items()]
        monkeypatch.setattr(cache, "distributions", lambda: found)
        return installed_digest.__wrapped__()

    assert digest(torch="2.13.0", numpy="2.0") == digest(numpy="2.0", torch="2.13.0")
    assert digest(torch="2.13.1", numpy="2.0") != digest(torch="2.13.0", numpy="2.0")
    assert digest(torch="2.13.0") != digest(torch="2.13.0", broken=None)


def test_a_distribution_without_a_name_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        SimpleNamespace(metadata={"Name": None}, version=None),
        SimpleNamespace(metadata={"Name": "a"}, version="1"),
    ]
    monkeypatch.setattr(cache, "distributions", lambda: found)
    assert installed_digest.__wrapped__()
