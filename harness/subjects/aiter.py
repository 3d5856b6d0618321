"""Which AITER the subject sees, found on disk without importing it.

In: the word of ``--aiter``. Out: its identity and where its tables or its tree are. Must not import AITER.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

from harness.model.errors import SubjectError, located
from harness.model.subject import Aiter, AiterMode
from harness.subjects.identity import Part, parts_digest
from harness.subjects.options import parse_kind
from harness.subjects.packages import containing_folder, folder_with_package

OPTION = "--aiter"
KINDS = {"none": "", "stand-in": "", "tables": "DIR", "path": "DIR", "installed": ""}
"""Kind -> what its argument is called; empty for none."""
_PACKAGE = (Part("aiter", (".py", ".csv", ".json")),)
# AITER's own layout: https://github.com/ROCm/aiter/tree/main/aiter/configs
_TABLES = (Part(".", (".csv",), deep=False), Part("model_configs", (".csv",), deep=False))


class LocatedAiter(NamedTuple):
    """AITER's identity, and where it is on this machine."""

    identity: Aiter
    tree: Path | None = None
    """The folder that contains the ``aiter/`` package, for ``path:`` and ``installed``."""
    tables: Path | None = None
    """The folder of tuned tables, for ``tables:``."""


def locate(spec: str) -> LocatedAiter:
    """Find what ``--aiter`` names.

    Args:
        spec: ``none``, ``stand-in``, ``tables:DIR`` (``DIR/*.csv`` and ``DIR/model_configs/*.csv``), ``path:DIR``
            (contains ``aiter/``) or ``installed``.

    Raises:
        UsageError: the word is none of these.
        SubjectError: the folder or package is not there, or is not AITER's.
    """
    kind, argument = parse_kind(OPTION, spec, KINDS)
    mode = cast(AiterMode, kind)
    if mode == "tables":
        tables = _tables(spec, Path(argument).expanduser().resolve())
        return LocatedAiter(Aiter(spec=spec, mode=mode, digest=parts_digest(tables, _TABLES)), tables=tables)
    if mode == "path":
        tree = folder_with_package(f"{OPTION} {spec}", "aiter", Path(argument))
    elif mode == "installed":
        tree = containing_folder(f"{OPTION} {spec}", "aiter", "Install amd-aiter, or give --aiter stand-in.")
    else:
        return LocatedAiter(Aiter(spec=spec, mode=mode))
    return LocatedAiter(Aiter(spec=spec, mode=mode, digest=parts_digest(tree, _PACKAGE)), tree=tree)


def _tables(spec: str, folder: Path) -> Path:
    names = [path.name for pattern in ("*.csv", "model_configs/*.csv") for path in folder.glob(pattern)]
    # AITER keeps the shapes still to be tuned beside the tables, as *untuned*.csv.
    if not any("tuned" in name.replace("untuned", "") for name in names):
        raise SubjectError(
            located(
                f"{OPTION} {spec}",
                "no tuned table in the folder",
                got=f"{len(names)} other csv files" if folder.is_dir() else "no such folder",
                expected="*tuned*.csv there or in its model_configs/",
                hint="Give the folder aiter/configs of an AITER checkout.",
            )
        )
    return folder
