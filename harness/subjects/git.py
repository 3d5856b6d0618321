"""The tree of one commit of a git repository, from a clone on this machine or from a URL.

In: ``REPO@REF``. Out: a cached folder named after the commit. Must not write into the repository or ask for a password.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from harness.model.errors import SubjectError, UsageError, located
from harness.subjects.archive import extract
from harness.subjects.progress import Progress, shown
from harness.subjects.store import once

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_URL = re.compile(r"(?P<scheme>[a-z+]+)://(?P<user>[^/@]+@)?.+|[^/]+:.+")
_PLACES = ("{}^{{}}", "{}", "refs/{}^{{}}", "refs/{}", "refs/tags/{}^{{}}", "refs/tags/{}", "refs/heads/{}")
"""Where git looks a name up, in git's order (gitrevisions(7)); ``^{}`` is the commit of an annotated tag."""


def commit_tree(argument: str, *, cache: Path, progress: Progress) -> Path:
    """The tree of ``REPO@REF``, from the cache where the commit is there.

    Args:
        argument: ``REPO`` is a folder (a clone, or a bare repository) or a URL; ``REF`` a branch, tag or commit.
            A full commit in the cache is served without touching the repository's network.
        cache: the cache folder.
        progress: is told of the fetch and the unpacking.

    Raises:
        UsageError: not ``REPO@REF``, or a URL that carries a password.
        SubjectError: git refuses, with git's words.
    """
    where = f"--subject git:{argument}"
    repo, at, ref = argument.rpartition("@")
    if not at or not repo or not ref or argument.startswith("-") or ref.startswith("-"):
        raise UsageError(located("--subject", "not a repository and a ref", got=argument, expected="git:REPO@REF"))
    folder = Path(repo).expanduser()
    if folder.is_dir():
        git_dir = str(folder / ".git" if (folder / ".git").exists() else folder)
        commit = _local_commit(where, git_dir, ref)
    else:
        git_dir = ""
        url = _checked_url(where, repo)
        commit = ref if _COMMIT.fullmatch(ref) else _remote_commit(where, url, ref)

    def build(scratch: Path) -> Path:
        return _export(where, git_dir or _fetch(where, url, commit, scratch, progress), commit, scratch, progress)

    return once(cache / "subjects" / "git" / commit, build, progress)


def _local_commit(where: str, git_dir: str, ref: str) -> str:
    commit = _git(where, f"--git-dir={git_dir}", "rev-list", "--max-count=1", "--end-of-options", ref, "--").strip()
    if not _COMMIT.fullmatch(commit):  # an empty range such as main..main
        raise SubjectError(located(where, "the ref names no commit", got=ref, expected="a branch, a tag or a commit"))
    return commit


def _checked_url(where: str, repo: str) -> str:
    match = _URL.fullmatch(repo)
    if match is None:
        raise SubjectError(located(where, "no such repository", got=repo, expected="a folder or a URL"))
    # A manifest repeats the spec word for word, so a token in it would end in every report.
    if match["user"] and match["scheme"] != "ssh":
        hint = "Let git's credential helper supply them."
        raise UsageError(located("--subject", "the URL carries credentials", expected="a URL without", hint=hint))
    return repo


def _remote_commit(where: str, url: str, ref: str) -> str:
    answer = _git(where, "ls-remote", "--", url, ref, f"{ref}^{{}}")
    commits = {name: commit for commit, name in (line.split("\t", 1) for line in answer.splitlines())}
    for place in _PLACES:
        if place.format(ref) in commits:
            return commits[place.format(ref)]
    hint = "A short commit works only with a local clone: give all 40 digits."
    expected = "a branch, a tag or a full commit"
    raise SubjectError(located(where, "the repository has no such ref", got=ref, expected=expected, hint=hint))


def _fetch(where: str, url: str, commit: str, scratch: Path, progress: Progress) -> str:
    git_dir = str(scratch / "repository.git")
    with shown(progress, None, f"fetching {commit[:12]} from {url}"):
        _git(where, "init", "--quiet", "--bare", git_dir)
        _git(where, f"--git-dir={git_dir}", "fetch", "--quiet", "--depth=1", "--no-tags", "--", url, commit)
    return git_dir


def _export(where: str, git_dir: str, commit: str, scratch: Path, progress: Progress) -> Path:
    archive, tree = scratch / f"{commit[:12]}.tar", scratch / "tree"
    _git(where, f"--git-dir={git_dir}", "archive", "--format=tar", f"--output={archive}", commit)
    extract(archive, tree, progress)
    return tree


def _git(where: str, *words: str) -> str:
    # --git-dir in the callers, because a GIT_DIR set by a hook would otherwise win; a session of its own has no
    # terminal, so that neither git nor ssh can stop to ask for a password.
    command = ["git", *words]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", start_new_session=True
        )
    except FileNotFoundError as error:
        raise SubjectError(located(where, "git is not installed", hint="Install git, or use path:DIR.")) from error
    if done.returncode != 0:
        got = done.stderr.strip() or f"exit code {done.returncode}"
        raise SubjectError(located(where, "git refuses", got=got, hint="Check the repository and the ref."))
    return done.stdout
