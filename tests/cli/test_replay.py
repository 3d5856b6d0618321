"""``gfxloop replay`` on three released faults that are cheap to ask, and on lists that are wrong."""

from __future__ import annotations

import json

import pytest

CHEAP = ("guard_gfx1250_fp8_utils", "mm_prefix", "bias_requires_grad")
ENTRY = {
    "name": "a",
    "id": "#1",
    "file": "vllm/model_executor/layers/quantization/utils/fp8_utils.py",
    "symbol": "w8a8_triton_block_scaled_mm",
    "targets": "cpu",
    "fault": "imports vllm.platforms.rocm",
    "bad_version": "0.28.0",
    "fixed_version": "0.29.0",
}


def test_three_released_faults_are_caught_and_their_fixed_releases_are_clean(gfxloop, replay_list):
    entries = [word for name in CHEAP for word in ("--entry", name)]
    targets = ("--target", "cpu", "--target", "gfx942/MI300X")
    versions = ("0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0")
    done = gfxloop("replay", replay_list, *entries, *targets, "--json", versions=versions)
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert body["d1"]["hit"] == body["d1"]["of"] == 3, [one["evidence"] for one in body["entries"]]
    assert body["d2"] == {"hit": 3, "of": 3, "named": 3}
    assert body["false_alarms"] == 0
    assert {one["name"]: one["d1_names"] for one in body["entries"]} == dict.fromkeys(CHEAP, "symbol")


def test_findings_of_a_release_that_an_entry_explains_are_counted_apart(gfxloop, tmp_path):
    path = tmp_path / "list.json"
    path.write_text(json.dumps([ENTRY, {**ENTRY, "name": "b", "symbol": "other", "file": "setup.py"}]))
    done = gfxloop("replay", path, "--target", "cpu", "--releases", "0.28.0", "--entry", "b", versions=("0.28.0",))
    assert done.returncode == 0, done.stderr
    assert "no surface looks at the file" in done.stdout
    assert "1 explained by the list" in done.stdout


def test_a_release_that_cannot_be_had_is_said_and_exits_4(gfxloop, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{**ENTRY, "bad_version": "0.0.1", "fixed_version": "0.0.2"}]))
    done = gfxloop("replay", path)
    assert done.returncode == 4
    assert "not asked: 0.0.1: " in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "list.json:1: a: key 'symbol' is missing"),
        (("--releases", "latest"), "--releases"),
        (("--entry", "b"), "list.json:1: a: key"),
    ],
)
def test_a_wrong_list_exits_2_with_its_line(gfxloop, tmp_path, words, said):
    path = tmp_path / "list.json"
    path.write_text(
        json.dumps([{key: value for key, value in ENTRY.items() if key != "symbol" or "--releases" in words}])
    )
    done = gfxloop("replay", path, *words)
    assert done.returncode == 2
    assert said in done.stderr
