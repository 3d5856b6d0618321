"""Turns the options that name a subject into a located, identified vLLM tree.

In: ``--subject``, ``--aiter``, the parsed ``--env`` and ``--packages``, a cache folder. Out: ``Located``.
Must not import vLLM or AITER; touches the network only for what is not in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.model.subject import Subject
from harness.subjects.aiter import locate
from harness.subjects.identity import tree_digest, version_of
from harness.subjects.options import parse_kind
from harness.subjects.packages import containing_folder, folder_with_package
from harness.subjects.progress import Progress

OPTION = "--subject"
KINDS = {"installed": "", "path": "DIR", "pypi": "VERSION", "git": "REPO@REF"}
"""Kind -> what its argument is called; empty for none."""
_INSTALL = "Install vLLM in this environment, or give --subject pypi:VERSION or --subject path:DIR."


@dataclass(frozen=True)
class Located:
    """A subject and where it is on this machine. The folders are no part of its identity."""

    subject: Subject
    tree: Path
    """The folder that contains the ``vllm/`` package; a worker puts it on ``sys.path``."""
    aiter_tree: Path | None
    """The folder that contains the ``aiter/`` package, for ``path:DIR`` and ``installed``."""
    aiter_tables: Path | None
    """The folder of AITER's tuned tables, for ``tables:DIR``."""

    @property
    def is_own_copy(self) -> bool:
        """Whether the tree is one that gfxloop fetched, and not the user's."""
        return parse_kind(OPTION, self.subject.spec, KINDS)[0] in ("pypi", "git")


def resolve(
    spec: str,
    *,
    aiter: str,
    env: Mapping[str, str],
    packages: Mapping[str, bool],
    cache: Path,
    progress: Progress,
    index_url: str | None = None,
) -> Located:
    """Find, and fetch where needed, the vLLM tree that ``spec`` names.

    Args:
        spec: ``installed``, ``path:DIR``, ``pypi:VERSION`` or ``git:REPO@REF``.
        aiter: ``none``, ``stand-in``, ``tables:DIR``, ``path:DIR`` or ``installed``.
        env: variables of ``--env`` (see ``parse_env``).
        packages: optional packages taken as present or absent (see ``parse_packages``).
        cache: folder for fetched trees, made when needed.
        progress: is told of downloads and unpackings.
        index_url: package index for ``pypi:``; None for pip's own setting, else PyPI.

    Raises:
        UsageError: a word that is wrong whatever the machine.
        SubjectError: the tree cannot be obtained, or is not a vLLM tree.
    """
    # First, because it costs nothing: a wrong --aiter is told before 40 MB are fetched.
    found = locate(aiter)
    tree = _tree(spec, cache, progress, index_url)
    subject = Subject(
        spec=spec,
        version=version_of(tree),
        digest=tree_digest(tree),
        aiter=found.identity,
        env=dict(env),
        packages=dict(packages),
    )
    return Located(subject=subject, tree=tree, aiter_tree=found.tree, aiter_tables=found.tables)


def _tree(spec: str, cache: Path, progress: Progress, index_url: str | None) -> Path:
    kind, argument = parse_kind(OPTION, spec, KINDS)
    where = f"{OPTION} {spec}"
    if kind == "installed":
        return containing_folder(where, "vllm", _INSTALL)
    if kind == "path":
        return folder_with_package(where, "vllm", Path(argument))
    # Imported here: requests and pypi-simple cost 0.25 s that a command without a download need not pay.
    if kind == "pypi":
        from harness.subjects.pypi import sdist_tree

        tree = sdist_tree(argument, cache=cache, progress=progress, index_url=index_url)
    else:
        from harness.subjects.git import commit_tree

        tree = commit_tree(argument, cache=cache, progress=progress)
    return folder_with_package(where, "vllm", tree)
