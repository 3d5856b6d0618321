from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.model.errors import UsageError
from harness.records.replays import pick, read_replays

ENTRY = {
    "name": "a",
    "id": "#1",
    "file": "vllm/platforms/rocm.py",
    "symbol": "f",
    "targets": "gfx942",
    "fault": "wrong",
    "bad_version": "0.28.0",
    "fixed_version": "0.29.0",
}


def _file(tmp_path: Path, *changes: dict[str, Any]) -> Path:
    """One entry a change, each on lines of its own; a value of None takes the key out."""
    entries = [{key: value for key, value in {**ENTRY, **change}.items() if value is not None} for change in changes]
    path = tmp_path / "list.json"
    path.write_text(json.dumps(entries, indent=1))
    return path


def test_entries_come_in_order_with_what_is_optional_left_out(tmp_path: Path) -> None:
    read = read_replays(_file(tmp_path, {}, {"name": "b", "kind": "gate", "right": "r", "fixed_version": "0.30"}))
    assert [(entry.name, entry.kind, entry.fixed_version) for entry in read] == [
        ("a", "", "0.29.0"),
        ("b", "gate", "0.30"),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"symbol": None}, "key 'symbol' is missing"),
        ({"simbol": "f"}, "unknown key 'simbol'. Did you mean 'symbol'?"),
        ({"bad_version": "latest"}, "bad_version: 'latest' is no version"),
        ({"fixed_version": "0.28.0"}, "the fixed version 0.28.0 is not later than the bad 0.28.0"),
        ({"fault": 3}, "fault: Input should be a valid string"),
        ({"file": ""}, "file: String should have at least 1 character"),
    ],
)
def test_a_wrong_entry_is_told_with_its_line_and_name(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = _file(tmp_path, {}, {"name": "second", **change})
    with pytest.raises(UsageError) as caught:
        read_replays(path)
    assert str(caught.value).startswith(f"{path}:12: second: ")
    assert said in str(caught.value)


def test_an_entry_that_is_no_object_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text('[\n"a"]')
    with pytest.raises(UsageError, match=r"list\.json:2: Input should be a valid dictionary"):
        read_replays(path)


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"list\.json:2: the name is taken \(got 'a'\)"):
        read_replays(_file(tmp_path, {}, {}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[{]", ":1:3: no JSON"),
        ("{}", ":1: no list of faults"),
        ("[]", ":1: no list of faults"),
        ("", ":1:1: no JSON"),
        ("[\n{},\n x]", ":3:2: no JSON"),
    ],
)
def test_a_file_that_is_no_list_is_told_with_its_position(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "list.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_replays(path)
    assert f"{path}{said}" in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_replays(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        read_replays(tmp_path / "bytes.json")


def test_names_pick_entries_in_the_order_of_the_list(tmp_path: Path) -> None:
    every = read_replays(_file(tmp_path, {}, {"name": "b"}, {"name": "c"}))
    assert [entry.name for entry in pick(every, ("c", "a"))] == ["a", "c"]
    assert pick(every, ()) == every
    with pytest.raises(UsageError, match=r"--entry: not in the list \(got 'd'\)"):
        pick(every, ("d",))


def test_the_list_of_released_faults_is_right(replay_list: Path) -> None:
    assert len(read_replays(replay_list)) == 23
