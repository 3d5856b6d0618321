"""Where a Python package lies on disk, found without importing it.

In: a package's name, or a folder that should contain it. Out: the folder that contains the package. Must not import it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from harness.model.errors import SubjectError, located


def folder_with_package(where: str, package: str, folder: Path) -> Path:
    """``folder``, absolute, after a check that it contains ``package/__init__.py``.

    Args:
        where: the option with its value, for the error message.
        package: ``vllm`` or ``aiter``.
        folder: as given by the user.

    Raises:
        SubjectError: it does not; says so by name where the package's own folder was given instead.
    """
    tree = folder.expanduser().resolve()
    if (tree / package / "__init__.py").is_file():
        return tree
    hint = f"Give the folder that contains {package}/."
    if tree.name == package and (tree / "__init__.py").is_file():
        hint = f"Give the folder above it: path:{tree.parent}"
    got = "no such folder" if not tree.is_dir() else f"no {package}/__init__.py in {tree}"
    raise SubjectError(located(where, f"not a folder with the {package} package", got=got, hint=hint))


def containing_folder(where: str, package: str, hint: str) -> Path:
    """The folder that contains the installed ``package`` (site-packages, or the source of an editable install).

    Raises:
        SubjectError: it is not installed; ``hint`` says what to do.
    """
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # a stand-in without __spec__ is in sys.modules
        spec = None
    # A namespace package (a bare folder of that name on the path) has no origin.
    if spec is None or spec.origin is None:
        raise SubjectError(located(where, f"{package} is not installed for this Python", hint=hint))
    return Path(spec.origin).resolve().parent.parent
