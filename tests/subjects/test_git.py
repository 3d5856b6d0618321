from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.model.errors import SubjectError, UsageError
from harness.subjects.git import commit_tree

Write = Callable[[Path, Mapping[str, bytes]], Path]


def _git(repo: Path, *words: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "init.defaultBranch=main")
    command = ("git", f"--git-dir={repo / '.git'}", f"--work-tree={repo}", *identity, *words)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path, write: Write) -> Path:
    """Two commits on main (vllm/a.py is 1, then 2), the first tagged v1 (annotated), and a branch x/main elsewhere."""
    repo = write(tmp_path / "repo", {"vllm/__init__.py": b"", "vllm/a.py": b"1"})
    _git(repo, "init")
    _git(repo, "add", ".")
    _git(repo, "commit", "-m", "one")
    _git(repo, "tag", "-a", "v1", "-m", "one")
    _git(repo, "branch", "x/main")
    write(repo, {"vllm/a.py": b"2"})
    _git(repo, "commit", "-am", "two")
    return repo


@pytest.fixture(params=["folder", "url"])
def source(request: pytest.FixtureRequest, repo: Path) -> str:
    """The same repository as a folder and as a URL."""
    return str(repo) if request.param == "folder" else f"file://{repo}"


@pytest.mark.parametrize(("ref", "a"), [("main", b"2"), ("HEAD", b"2"), ("v1", b"1"), ("refs/heads/x/main", b"1")])
def test_a_branch_or_a_tag_is_the_tree_of_its_commit(
    ref: str, a: bytes, source: str, repo: Path, tmp_path: Path, progress: Any
) -> None:
    tree = commit_tree(f"{source}@{ref}", cache=tmp_path / "cache", progress=progress)
    assert (tree / "vllm" / "a.py").read_bytes() == a
    assert tree.name == _git(repo, "rev-parse", f"{ref}^{{commit}}")
    assert progress.open == 0


def test_uncommitted_edits_are_not_taken(source: str, repo: Path, write: Write, tmp_path: Path, progress: Any) -> None:
    write(repo, {"vllm/a.py": b"edited"})
    tree = commit_tree(f"{source}@main", cache=tmp_path / "cache", progress=progress)
    assert (tree / "vllm" / "a.py").read_bytes() == b"2"


def test_a_moved_branch_is_a_new_tree_and_the_old_commit_stays(
    source: str, repo: Path, write: Write, tmp_path: Path, progress: Any
) -> None:
    old = commit_tree(f"{source}@main", cache=tmp_path / "cache", progress=progress)
    write(repo, {"vllm/a.py": b"3"})
    _git(repo, "commit", "-am", "three")
    new = commit_tree(f"{source}@main", cache=tmp_path / "cache", progress=progress)
    assert [(tree / "vllm" / "a.py").read_bytes() for tree in (old, new)] == [b"2", b"3"]


def test_a_full_commit_in_the_cache_needs_no_repository(repo: Path, tmp_path: Path, progress: Any) -> None:
    commit = _git(repo, "rev-parse", "v1^{commit}")
    tree = commit_tree(f"file://{repo}@{commit}", cache=tmp_path / "cache", progress=progress)
    repo.rename(tmp_path / "gone")
    assert commit_tree(f"file://{repo}@{commit}", cache=tmp_path / "cache", progress=progress) == tree


def test_a_bare_repository_and_a_worktree_are_repositories(repo: Path, tmp_path: Path, progress: Any) -> None:
    _git(repo, "worktree", "add", str(tmp_path / "worktree"), "v1")
    _git(repo, "clone", "--bare", str(repo), str(tmp_path / "bare.git"))
    for folder, a in (("worktree", b"1"), ("bare.git", b"2")):
        tree = commit_tree(f"{tmp_path / folder}@HEAD", cache=tmp_path / "cache", progress=progress)
        assert (tree / "vllm" / "a.py").read_bytes() == a


def test_the_repository_of_a_surrounding_hook_is_not_mistaken_for_the_one_asked_for(
    repo: Path, tmp_path: Path, progress: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "hook" / ".git"))
    tree = commit_tree(f"{repo}@main", cache=tmp_path / "cache", progress=progress)
    assert (tree / "vllm" / "a.py").read_bytes() == b"2"


@pytest.mark.parametrize("ref", ["no-such-ref", "mian", "0" * 40])
def test_a_ref_that_is_not_there_is_refused_and_nothing_stays(
    ref: str, source: str, tmp_path: Path, progress: Any
) -> None:
    with pytest.raises(SubjectError) as caught:
        commit_tree(f"{source}@{ref}", cache=tmp_path / "cache", progress=progress)
    assert str(caught.value).startswith(f"--subject git:{source}@{ref}: ")
    assert ref in str(caught.value).partition(": ")[2]
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []


def test_gits_own_words_are_kept(repo: Path, tmp_path: Path, progress: Any) -> None:
    with pytest.raises(SubjectError, match=r"git refuses \(got .*bad revision 'nope'"):
        commit_tree(f"{repo}@nope", cache=tmp_path / "cache", progress=progress)
    with pytest.raises(SubjectError, match=r"git refuses \(got .*gone"):
        commit_tree(f"file://{tmp_path / 'gone'}@main", cache=tmp_path / "cache", progress=progress)
    with pytest.raises(SubjectError, match=r"git refuses \(got .*not a git repository"):
        commit_tree(f"{tmp_path}@main", cache=tmp_path / "cache", progress=progress)


def test_an_empty_range_is_no_commit(repo: Path, tmp_path: Path, progress: Any) -> None:
    with pytest.raises(SubjectError, match="the ref names no commit"):
        commit_tree(f"{repo}@main..main", cache=tmp_path / "cache", progress=progress)


def test_a_word_that_is_neither_folder_nor_url_is_refused(tmp_path: Path, progress: Any) -> None:
    with pytest.raises(SubjectError, match=r"no such repository \(got 'nowhere'; expected a folder or a URL"):
        commit_tree("nowhere@main", cache=tmp_path, progress=progress)


@pytest.mark.parametrize("argument", ["repo", "repo@", "@main", "repo@--output=x", "--upload-pack=x@main"])
def test_what_is_not_a_repository_and_a_ref_is_refused(argument: str, tmp_path: Path, progress: Any) -> None:
    with pytest.raises(UsageError, match="expected git:REPO@REF"):
        commit_tree(argument, cache=tmp_path, progress=progress)


@pytest.mark.parametrize("user", ["token", "user:secret"])
def test_a_url_with_credentials_is_refused_without_repeating_them(user: str, tmp_path: Path, progress: Any) -> None:
    with pytest.raises(UsageError) as caught:
        commit_tree(f"https://{user}@example.invalid/vllm@main", cache=tmp_path, progress=progress)
    assert "carries credentials" in str(caught.value)
    assert user not in str(caught.value)


def test_a_missing_git_is_told(repo: Path, tmp_path: Path, progress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SubjectError, match="git is not installed"):
        commit_tree(f"{repo}@main", cache=tmp_path / "cache", progress=progress)
