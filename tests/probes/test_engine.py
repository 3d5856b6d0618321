from __future__ import annotations

import dataclasses
import io
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.matrix import Matrix, select
from harness.model.cell import Cell, Layer, Surface
from harness.model.record import Ended, Observation, Record
from harness.probes import cache as cache_module
from harness.probes import engine as engine_module
from harness.probes.campaign import Campaign, Request
from harness.probes.engine import Engine
from harness.subjects import Located, progress_on, resolve
from harness.targets.pool import Start

LAYER = Layer("o", 64, 128)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted: str) -> Path:
    """A small subject, whose workers run the scripted probe."""
    monkeypatch.setattr(engine_module, "PROBE", scripted)
    tree = tmp_path / "tree"
    for name, text in {
        "vllm/__init__.py": "",
        "vllm/layer.py": "a = 1\n",
        "csrc/torch_bindings.cpp": "// none\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: vllm\nVersion: 1.2.3\n")
    return tree


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "a8w8_tuned_gemm.csv").write_text("gfx,cu_num,M,N,K\n")
    return folder


class Asked:
    """One run of an engine."""

    def __init__(self, found: Located, cells: Sequence[Cell], cache: Path | None, **options: Any) -> None:
        self.pids: list[int] = []
        self.seen: dict[str, Observation] = {}
        Engine(found, cache, on_start=self.pids.append, **options).observe(cells, self._report)

    def _report(self, cell: Cell, seen: Observation) -> None:
        assert cell.id not in self.seen
        self.seen[cell.id] = seen


def _find(tree: Path, **options: Any) -> Located:
    words = {"aiter": "none", "env": {}, "packages": {}, **options}
    return resolve(f"path:{tree}", cache=tree.parent / "unused", progress=progress_on(io.StringIO()), **words)


@pytest.fixture
def cells(make_cell: Callable[..., Cell]) -> list[Cell]:
    return [make_cell(f"k{i}", scheme={"do": f"answer = {i}"}, layer=LAYER) for i in range(3)]


def test_a_rocm_target_that_the_release_is_not_built_for_is_unsupported_and_asks_no_worker(
    tree: Path, make_cell: Callable[..., Cell]
) -> None:
    cells = [make_cell(target="gfx942/MI300X", scheme={"do": "answer = 1"})]
    (tree / "CMakeLists.txt").write_text('set(HIP_SUPPORTED_ARCHS "gfx1100")\n')
    asked = Asked(_find(tree), cells, None)
    assert asked.pids == []
    assert {seen.ended for seen in asked.seen.values()} == {Ended.UNSUPPORTED}
    assert all("HIP_SUPPORTED_ARCHS" in seen.detail for seen in asked.seen.values())
    (tree / "CMakeLists.txt").write_text('set(HIP_SUPPORTED_ARCHS "gfx1100;gfx942")\n')
    assert [seen.chosen for seen in Asked(_find(tree), cells, None).seen.values()] == ["1"]


# ---- the cache, end to end


def test_a_second_run_asks_no_worker_and_gives_the_same(tree: Path, cells: list[Cell], tmp_path: Path) -> None:
    first = Asked(_find(tree), cells, tmp_path / "cache")
    second = Asked(_find(tree), cells, tmp_path / "cache")
    assert (len(first.pids), second.pids) == (1, [])
    assert [first.seen[cell.id].chosen for cell in cells] == ["0", "1", "2"]
    assert second.seen == first.seen


def test_the_same_tree_elsewhere_is_the_same_subject(tree: Path, cells: list[Cell], tmp_path: Path) -> None:
    Asked(_find(tree), cells, tmp_path / "cache")
    shutil.copytree(tree, tmp_path / "copy")
    assert Asked(_find(tmp_path / "copy"), cells, tmp_path / "cache").pids == []


def _edited(name: str) -> Callable[[Path, list[Cell]], tuple[dict[str, Any], list[Cell]]]:
    def change(tree: Path, cells: list[Cell]) -> tuple[dict[str, Any], list[Cell]]:
        (tree / name).write_text((tree / name).read_text() + " ")
        return {}, cells

    return change


def _option(**options: Any) -> Callable[[Path, list[Cell]], tuple[dict[str, Any], list[Cell]]]:
    return lambda _tree, cells: (options, cells)


def _cells(change: Callable[[Cell], Cell]) -> Callable[[Path, list[Cell]], tuple[dict[str, Any], list[Cell]]]:
    return lambda _tree, cells: ({}, [change(cell) for cell in cells])


def _scheme(cell: Cell) -> Cell:
    kernel = dataclasses.replace(cell.kernel, scheme={**cell.kernel.scheme, "group": 64})
    return dataclasses.replace(cell, kernel=kernel)


CHANGES = {
    "a Python file of the subject": _edited("vllm/layer.py"),
    "an operator's declaration": _edited("csrc/torch_bindings.cpp"),
    "--env": _option(env={"VLLM_X": "1"}),
    "--packages": _option(packages={"flash_attn": True}),
    "--aiter": _option(aiter="stand-in"),
    "a kernel's scheme": _cells(_scheme),
    "a layer's shape": _cells(lambda cell: dataclasses.replace(cell, layer=Layer("o", 64, 256))),
    "a profile's variable": _cells(lambda cell: dataclasses.replace(cell, env={"VLLM_X": "1"})),
    "a fact of the target": _cells(lambda c: dataclasses.replace(c, target=dataclasses.replace(c.target, cu_count=7))),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changes_is_asked_again(tree: Path, cells: list[Cell], tmp_path: Path, what: str) -> None:
    Asked(_find(tree), cells, tmp_path / "cache")
    options, changed = CHANGES[what](tree, cells)
    assert len(Asked(_find(tree, **options), changed, tmp_path / "cache").pids) == 1


def test_a_changed_table_of_aiter_is_asked_again(tree: Path, cells: list[Cell], tables: Path, tmp_path: Path) -> None:
    Asked(_find(tree, aiter=f"tables:{tables}"), cells, tmp_path / "cache")
    assert Asked(_find(tree, aiter=f"tables:{tables}"), cells, tmp_path / "cache").pids == []
    (tables / "a8w8_tuned_gemm.csv").write_text("gfx,cu_num,M,N,K\ngfx942,304,1,2,3\n")
    assert len(Asked(_find(tree, aiter=f"tables:{tables}"), cells, tmp_path / "cache").pids) == 1


@pytest.mark.parametrize("name", ["harness_digest", "installed_digest"])
def test_another_harness_or_installation_asks_again(
    tree: Path, cells: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    Asked(_find(tree), cells, tmp_path / "cache")
    monkeypatch.setattr(cache_module, name, lambda: "another")
    assert len(Asked(_find(tree), cells, tmp_path / "cache").pids) == 1


def test_only_the_cells_that_are_new_are_asked(tree: Path, cells: list[Cell], tmp_path: Path) -> None:
    log = tmp_path / "log"
    logged = [_logging(cell, log) for cell in cells]
    Asked(_find(tree), logged[:1], tmp_path / "cache")
    assert len(Asked(_find(tree), logged, tmp_path / "cache").seen) == 3
    assert log.read_text().split() == ["k0", "k1", "k2"]


def test_without_a_cache_every_run_asks(tree: Path, cells: list[Cell]) -> None:
    for _ in range(2):
        assert len(Asked(_find(tree), cells, None).pids) == 1


def test_a_cell_that_killed_its_worker_is_asked_again_and_the_others_are_not(
    tree: Path, make_cell: Callable[..., Cell], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    cells = [_logging(make_cell("fine"), log), _logging(make_cell("fatal", scheme={"do": "os.abort()"}), log)]
    for _ in range(2):
        assert [seen.ended for seen in Asked(_find(tree), cells, tmp_path / "cache").seen.values()] == [
            Ended.ANSWERED,
            Ended.DIED,
        ]
    assert log.read_text().split() == ["fine", "fatal", "fatal"]


def test_what_an_interrupted_run_has_seen_is_kept(tree: Path, cells: list[Cell], tmp_path: Path) -> None:
    log = tmp_path / "log"
    logged = [*(_logging(cell, log) for cell in cells[:2]), _logging(cells[2], log, first="time.sleep(600)")]
    count = 0

    def report(_cell: Cell, _seen: Observation) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Engine(_find(tree), tmp_path / "cache").observe(logged, report)
    assert set(Asked(_find(tree), logged[:2], tmp_path / "cache").seen) == {cell.id for cell in logged[:2]}
    assert log.read_text().split()[:2] == ["k0", "k1"]
    assert log.read_text().split().count("k0") == log.read_text().split().count("k1") == 1


def _logging(cell: Cell, log: Path, first: str = "") -> Cell:
    """The cell, writing its kernel's name to ``log`` when it is asked."""
    do = f"open({str(log)!r}, 'a').write('{cell.kernel.name}\\n'); {first}\n{cell.kernel.scheme.get('do', '')}"
    return dataclasses.replace(cell, kernel=dataclasses.replace(cell.kernel, scheme={"do": do}))


# ---- groups


def test_one_worker_serves_one_target_in_one_environment(tree: Path, make_cell: Callable[..., Cell]) -> None:
    cells = [
        make_cell("a", environment="off", env={"X": "0"}),
        make_cell("b", environment="on", env={"X": "1"}),
        make_cell("c", target="xpu", environment="off", env={"X": "0"}),
        make_cell("d", environment="also_off", env={"X": "0"}),
    ]
    groups = Engine(_find(tree), None).groups(cells)
    assert [[cell.kernel.name for cell in group.cells] for group in groups] == [["a", "d"], ["b"], ["c"]]
    assert len({group.digest for group in groups}) == 3


def test_variables_of_the_command_line_are_set_on_top_of_the_profile(
    tree: Path, make_cell: Callable[..., Cell]
) -> None:
    found = _find(tree, env={"VLLM_X": "9", "VLLM_Y": "2"})
    ask = "answer = (os.environ['VLLM_X'], os.environ['VLLM_Y'], os.environ['VLLM_Z'])"
    cell = make_cell(scheme={"do": ask}, env={"VLLM_X": "1", "VLLM_Z": "3"})
    assert Asked(found, [cell], None).seen[cell.id].chosen == "('9', '2', '3')"


def test_of_two_that_ask_one_group_at_once_one_works(tree: Path, cells: list[Cell], tmp_path: Path) -> None:
    log = tmp_path / "log"
    logged = [_logging(cell, log) for cell in cells]
    found = _find(tree)
    answers: list[Mapping[str, Observation]] = []

    def ask() -> None:
        engine = Engine(found, tmp_path / "cache")
        (group,) = engine.groups(logged)
        answers.append(engine.observe_group(group))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == answers[1]
    assert sorted(log.read_text().split()) == ["k0", "k1", "k2"]


def test_a_group_can_be_asked_without_a_cache(tree: Path, cells: list[Cell]) -> None:
    engine = Engine(_find(tree), None)
    (group,) = engine.groups(cells)
    assert [engine.observe_group(group)[cell.id].chosen for cell in cells] == ["0", "1", "2"]


# ---- real vLLM: fork server, cache and fresh process

KERNELS = ["fp8_tensor_static", "fp8_block", "gptq_g128", "int8_channel_dynamic", "mxfp8"]
MODELS = ["qwen3-0.6b"]
OFF = {"targets": ["gfx942/MI300X", "gfx1100", "sm90", "cpu"], "environments": ["aiter_off", "default"]}
ON = {"targets": ["gfx942/MI300X"], "environments": ["aiter_on"]}
FEW = [
    {**OFF, "kernels": ["facts", "allowlist", "guard"]},
    {**OFF, "kernels": KERNELS, "models": MODELS},
    {**ON, "kernels": [*KERNELS, "fp8_token_channel"], "models": MODELS},
]


@pytest.mark.slow
def test_fork_server_cache_and_fresh_process_give_identical_records(
    located: Callable[..., Located], matrix: Matrix, tmp_path: Path
) -> None:
    found = located("0.33.0")
    cells = [cell for words in FEW for cell in select(matrix.cells, **words)]

    def records(cache: Path | None, start: Start = Start.FORK_SERVER) -> tuple[int, dict[str, Record]]:
        asked = Asked(found, cells, cache, start=start)
        campaign = Campaign(Request(matrix.path), matrix, found, tuple(cells), (), Engine(found, cache))
        return len(asked.pids), {cell.id: campaign.record(cell, asked.seen[cell.id]) for cell in cells}

    forked, kept, fresh = records(tmp_path / "cache"), records(tmp_path / "cache"), records(None, Start.FRESH)
    assert (forked[0], kept[0], fresh[0]) == (5, 0, 5)
    assert len(forked[1]) == len(cells) > 100
    assert kept[1] == forked[1]
    assert fresh[1] == forked[1]


@pytest.mark.slow
def test_what_is_asked_before_a_cell_changes_nothing_of_its_answer(
    located: Callable[..., Located], matrix: Matrix
) -> None:
    chosen = select(matrix.cells, targets=["gfx950"], environments=["aiter_on"])
    # What importing does is asked of a process that has imported nothing else: those cells stand first in the matrix.
    cells = [cell for cell in chosen if cell.kernel.surface is not Surface.IMPORT_EFFECT]
    forwards, backwards = (Asked(located("0.33.0"), order, None).seen for order in (cells, cells[::-1]))
    differ = {key for key in forwards if _answer(forwards[key]) != _answer(backwards[key])}
    assert differ == set()
    assert len(forwards) == len(cells) > 300


def _answer(seen: Observation) -> tuple[object, ...]:
    """The decision without what was asked on the way: the first cell that imports a module sees more of it."""
    return seen.ended, seen.chosen, seen.symbol, seen.candidates, seen.findings
