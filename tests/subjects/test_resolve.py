from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.model.errors import SubjectError, UsageError
from harness.subjects import git, pypi
from harness.subjects.identity import tree_digest
from harness.subjects.resolve import Located, resolve

Write = Callable[[Path, Mapping[str, bytes]], Path]


@pytest.fixture
def locate(tmp_path: Path, progress: Any) -> Callable[..., Located]:
    def locate(spec: str, **words: Any) -> Located:
        options = {"aiter": "none", "env": {}, "packages": {}, "cache": tmp_path / "cache", **words}
        return resolve(spec, progress=progress, **options)

    return locate


def test_a_folder_is_located_and_identified_with_everything_that_was_given(
    vllm_tree: Path, write: Write, tmp_path: Path, locate: Callable[..., Located]
) -> None:
    tables = write(tmp_path / "tables", {"x_tuned.csv": b"1"})
    found = locate(f"path:{vllm_tree}", aiter=f"tables:{tables}", env={"A": "1"}, packages={"flash_attn": True})
    assert (found.tree, found.aiter_tree, found.aiter_tables) == (vllm_tree, None, tables)
    assert found.subject.spec == f"path:{vllm_tree}"
    assert found.subject.version == "1.2.3"
    assert found.subject.digest == tree_digest(vllm_tree)
    assert found.subject.env == {"A": "1"}
    assert found.subject.packages == {"flash_attn": True}
    assert found.subject.aiter.mode == "tables"
    assert not (tmp_path / "cache").exists()


def test_the_installed_vllm_is_located_without_being_imported(
    write: Write, tmp_path: Path, locate: Callable[..., Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = write(tmp_path / "site", {"vllm/__init__.py": b"raise SystemExit", "aiter/__init__.py": b"raise SystemExit"})
    write(site, {"vllm-4.5.dist-info/METADATA": b"Name: vllm\nVersion: 4.5\n"})
    monkeypatch.syspath_prepend(site)
    found = locate("installed", aiter="installed")
    assert (found.tree, found.aiter_tree, found.subject.version) == (site, site, "4.5")
    assert "vllm" not in sys.modules


@pytest.mark.parametrize(
    ("module", "function", "spec", "argument"),
    [(pypi, "sdist_tree", "pypi:1.2.3", "1.2.3"), (git, "commit_tree", "git:repo@main", "repo@main")],
)
def test_what_is_fetched_is_identified_by_its_content(
    module: Any,
    function: str,
    spec: str,
    argument: str,
    vllm_tree: Path,
    locate: Callable[..., Located],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def fetched(word: str, **_: object) -> Path:
        asked.append(word)
        return vllm_tree

    monkeypatch.setattr(module, function, fetched)
    subject = locate(spec).subject
    assert asked == [argument]
    assert (subject.spec, subject.digest) == (spec, tree_digest(vllm_tree))
    assert subject.identity == locate(f"path:{vllm_tree}").subject.identity


def test_a_commit_without_vllm_is_refused(
    tmp_path: Path, locate: Callable[..., Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "commit_tree", lambda *_, **__: tmp_path)
    with pytest.raises(SubjectError, match=r"^--subject git:repo@main: not a folder with the vllm package"):
        locate("git:repo@main")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("pypy:0.33.0", "Did you mean 'pypi'?"),
        ("0.33.0", "expected one of installed, path:DIR, pypi:VERSION, git:REPO@REF"),
        ("path:", "path needs an argument"),
        ("installed:0.33.0", "installed takes no argument"),
    ],
)
def test_a_wrong_spec_is_a_usage_error(spec: str, says: str, locate: Callable[..., Located]) -> None:
    with pytest.raises(UsageError) as caught:
        locate(spec)
    assert says in str(caught.value)


def test_a_wrong_aiter_is_told_before_anything_is_fetched(
    locate: Callable[..., Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pypi, "sdist_tree", lambda *_, **__: pytest.fail("fetched"))
    with pytest.raises(UsageError, match=r"^--aiter: unknown kind"):
        locate("pypi:1.2.3", aiter="tabels:x")


def test_the_package_costs_no_import_of_the_libraries_of_a_download() -> None:
    heavy = ("requests", "pypi_simple", "rich", "filelock", "vllm", "torch")
    command = f"import sys, harness.subjects; print([name for name in {heavy} if name in sys.modules])"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", command], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
