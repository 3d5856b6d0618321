from __future__ import annotations

import io
from typing import Any

import pytest

from harness.model.cell import Surface
from harness.model.replay import Alarm, Caught, Names, ReleaseAlarms, Replay, Replayed
from harness.report.replays import print_replay, rates, replay_json
from harness.report.terminal import console_for


def entry(name: str, **fields: Any) -> Replayed:
    values: dict[str, Any] = {
        "name": name,
        "id": "#1",
        "bad": "0.28.0",
        "fixed": "0.29.0",
        "surfaces": (Surface.LINEAR,),
        "cells": 4,
        "d1": False,
        "d1_by": None,
        "d1_names": None,
        "d2": False,
        "d2_names": None,
        "false_alarm": False,
        "evidence": "4 cells asked, none flagged and none different",
        "reproduce": "",
    }
    return Replayed(**(values | fields))


@pytest.fixture
def replay() -> Replay:
    caught = {"d1": True, "d1_names": Names.SYMBOL, "d2": True, "d2_names": Names.CLASS}
    alarm = Alarm(
        rule="I5",
        symbol="f",
        surface=Surface.MOE,
        targets=("cpu", "gfx942/MI300X"),
        cells=2,
        message="on\x1b[31m",
        reproduce="gfxloop reproduce x",
    )
    return Replay(
        entries=(
            entry("first", **caught, d1_by=Caught.INVARIANT, evidence="cell: I5 at f: m"),
            entry("second", **caught | {"d2_names": Names.SURFACE}, d1_by=Caught.EXPECTATION, false_alarm=True),
            entry("third"),
        ),
        releases=(ReleaseAlarms(release="0.29.0", cells=9, outcomes={}, findings=3, explained=2, alarms=(alarm,)),),
        unasked={"0.1.0": "no such version"},
    )


def printed(replay: Replay) -> str:
    stream = io.StringIO()
    print_replay(replay, console_for(stream))
    return stream.getvalue()


def test_the_rates_count_each_entry_once_by_what_caught_it(replay: Replay) -> None:
    assert rates(replay) == [
        "D1 2 of 3 (invariants 1, expectations 1); 2 name the symbol or its class",
        "D2 2 of 3; 1 name the symbol or its class",
        "false alarms 1",
    ]


def test_the_page_has_an_entry_in_two_lines_then_the_rates_then_what_no_entry_explains(replay: Replay) -> None:
    lines = printed(replay).splitlines()
    assert " ".join(lines[0].split()) == "first 0.28.0 -> 0.29.0 D1 invariant, names the symbol D2 names the class"
    assert lines[1].strip() == "cell: I5 at f: m"
    assert lines[2].endswith("FALSE ALARM on the fixed release")
    assert " ".join(lines[4].split()) == "third 0.28.0 -> 0.29.0 D1 - D2 -"
    assert "not asked: 0.1.0: no such version" in lines
    assert "0.29.0: 3 findings in 9 cells, 2 explained by the list, 1 not" in lines
    assert "- I5 at f (moe): 2 cells on cpu, gfx942/MI300X" in lines


def test_foreign_text_cannot_colour_the_page(replay: Replay) -> None:
    assert "\x1b" not in printed(replay)


def test_the_object_has_the_rates_and_every_field_of_an_entry(replay: Replay) -> None:
    body = replay_json(replay)
    assert body["schema"] == 1
    assert body["d1"] == {"hit": 2, "of": 3, "named": 2, "invariants": 1, "expectations": 1}
    assert body["d2"] == {"hit": 2, "of": 3, "named": 1}
    assert body["false_alarms"] == 1
    assert [(one["name"], one["d1"], one["d1_by"]) for one in body["entries"]] == [
        ("first", True, "invariant"),
        ("second", True, "expectation"),
        ("third", False, None),
    ]
    assert set(body["entries"][0]) == set(Replayed.model_fields)
    assert body["releases"][0]["alarms"][0]["targets"] == ["cpu", "gfx942/MI300X"]
    assert body["unasked"] == {"0.1.0": "no such version"}
