from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model.deed import Deed
from harness.targets.effects import Watcher
from harness.targets.journal import Journal

Run = Callable[..., dict[str, object]]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def watcher(tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Watcher:
    """Installed for the length of the test; package ``aiter`` is an empty one."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", {name: one for name, one in sys.modules.items() if name != "aiter"})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    (tmp_path / "site" / "aiter").mkdir(parents=True)
    for name in ("__init__", "ops"):
        (tmp_path / "site" / "aiter" / f"{name}.py").write_text("")
    monkeypatch.setenv("GFXLOOP_SEEN", "before")
    made = Watcher(tmp_path, journal)
    made.install(monkeypatch)
    return made


@pytest.fixture
def subject(tmp_path: Path) -> Run:
    """Runs code as ``vllm/layer.py`` of the subject's tree, or as a file beside it."""

    def run(code: str, file: str = "vllm/layer.py", **names: object) -> dict[str, object]:
        scope: dict[str, object] = {"__name__": file.removesuffix(".py").replace("/", "."), "os": os, **names}
        exec(compile(code, str(tmp_path / file), "exec"), scope)
        return scope

    return run


def called(scope: dict[str, object], name: str = "f") -> None:
    function = scope[name]
    assert isinstance(function, types.FunctionType)
    function()


# ---- the environment


@pytest.mark.parametrize(
    "statement",
    [
        "os.environ['GFXLOOP_SEEN'] = '0,1'",
        "os.environ.update(GFXLOOP_SEEN='0,1')",
        "os.putenv('GFXLOOP_SEEN', '0,1')",
    ],
)
def test_a_variable_that_the_subject_sets_is_noted_with_its_line(
    watcher: Watcher, journal: Journal, subject: Run, statement: str
) -> None:
    called(subject(f"def f():\n    {statement}"))
    assert journal.deeds.variables == [Deed("GFXLOOP_SEEN=0,1", "vllm/layer.py:2 in f")]


def test_a_variable_that_the_subject_takes_away_is_noted_and_taken_away(
    watcher: Watcher, journal: Journal, subject: Run
) -> None:
    subject("del os.environ['GFXLOOP_SEEN']")
    assert [deed.what for deed in journal.deeds.variables] == ["no GFXLOOP_SEEN"]
    assert "GFXLOOP_SEEN" not in os.environ


def test_what_others_set_is_not_the_subject_s(watcher: Watcher, journal: Journal, subject: Run, tmp_path: Path) -> None:
    os.environ["GFXLOOP_SEEN"] = "1"
    other = types.ModuleType("other")
    exec("import os\ndef sets():\n    os.environ['GFXLOOP_SEEN'] = '2'", vars(other))
    subject("sets()", sets=vars(other)["sets"])
    assert journal.deeds.variables == []
    assert os.environ["GFXLOOP_SEEN"] == "2"


def test_no_path_of_this_machine_is_noted(watcher: Watcher, journal: Journal, subject: Run) -> None:
    subject("os.environ['GFXLOOP_SEEN'] = '/tmp/x'")
    assert [deed.what for deed in journal.deeds.variables] == ["GFXLOOP_SEEN=..."]


def test_what_a_module_does_is_told_from_what_a_function_does_later(
    watcher: Watcher, journal: Journal, subject: Run
) -> None:
    scope = subject("def f():\n    os.environ['GFXLOOP_SEEN'] = '1'\nf()")
    called(scope)
    assert [deed.importing for deed in journal.deeds.variables] == [True, False]


# ---- a vendor's package


def test_an_import_of_a_switched_package_is_noted_with_its_importer(
    watcher: Watcher, journal: Journal, subject: Run
) -> None:
    called(subject("def f():\n    from aiter import ops"))
    assert [(deed.what, deed.by) for deed in journal.deeds.vendor] == [
        ("aiter", "vllm/layer.py:2 in f"),
        ("aiter.ops", "vllm/layer.py:2 in f"),
    ]


def test_a_probe_for_a_switched_package_is_no_import(watcher: Watcher, journal: Journal, subject: Run) -> None:
    subject("assert find('aiter') is not None", find=importlib.util.find_spec)
    assert journal.deeds.vendor == []


def test_an_import_by_anything_else_is_not_noted(watcher: Watcher, journal: Journal, subject: Run) -> None:
    importlib.import_module("aiter")
    subject("import json.tool")
    assert journal.deeds.vendor == []


# ---- the device


def test_a_call_that_initialises_the_device_is_noted_at_the_subject_s_innermost_line(
    watcher: Watcher, journal: Journal, subject: Run
) -> None:
    query = lambda: watcher.initialises("torch.cuda.current_device")  # noqa: E731
    called(subject("def g():\n    query()\ndef f():\n    g()", query=query))
    assert journal.deeds.initialised == [Deed("torch.cuda.current_device", "vllm/layer.py:2 in g")]


def test_of_torch_the_function_that_the_subject_called_is_named(
    watcher: Watcher, journal: Journal, subject: Run
) -> None:
    torch_like = {"__name__": "torch.cuda.memory", "lazily": lambda: watcher.initialises("torch.cuda._lazy_init")}
    exec("def mem_get_info():\n    lazily()", torch_like)
    called(subject("def f():\n    query()", query=torch_like["mem_get_info"]))
    assert [deed.what for deed in journal.deeds.initialised] == ["torch.cuda.memory.mem_get_info"]


def test_a_call_from_outside_the_subject_is_not_noted(watcher: Watcher, journal: Journal) -> None:
    watcher.initialises("torch.cuda.current_device")
    assert journal.deeds.initialised == []
