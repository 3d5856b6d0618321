"""Whether an exception out of the subject is the environment's doing: a third-party package that is missing or too new.

In: an exception. Out: words that name the package, or nothing where the exception is the subject's own. A package that
a target takes as absent, or that belongs to one platform, is never the environment's doing: to import such a package
without asking is a fault of the subject.
"""

from __future__ import annotations

import re
import sys
import types
from importlib.metadata import PackageNotFoundError, version

from harness.targets.packages import ALWAYS_ABSENT, OPTIONAL_PACKAGES, VENDOR_MODULES

_OWN = "vllm"
_DECIDED = {
    _OWN,
    "harness",
    "aiter",
    *OPTIONAL_PACKAGES,
    *ALWAYS_ABSENT,
    *(name.partition(".")[0] for name in VENDOR_MODULES),
}
"""Top-level packages whose presence the subject or the target decides, not the environment."""

_WANTED = re.compile(r"cannot import name '(\w+)'")
"""What Python 3.11 says; only 3.12 has it as an attribute of the exception."""

_DECLARED = ("_OpNamespace", "_Ops", "OpOverloadPacket")
"""Types of torch that stand for operators: one that is missing is the build's business, not torch's."""


def lacking_package(error: BaseException | None) -> str:
    """Which package of the environment an exception is about, in words; empty where it is about none.

    Args:
        error: what came out of the subject. An exception that it was raised from counts as well.

    Returns:
        ``package gguf, which is missing here``, ``transformers.TokenizerBase, which transformers 5.20.0 does not
        have``, or an empty string.
    """
    while error is not None:
        root, name = _asked(error)
        if root and root not in _DECIDED and root not in sys.stdlib_module_names and root != "builtins":
            if isinstance(error, ModuleNotFoundError) and name == root:
                return f"package {root}, which is missing here"
            return f"{name}, which {_release(root)} does not have"
        error = error.__cause__
    return ""


def _asked(error: BaseException) -> tuple[str, str]:
    """The top-level package that was asked, and for what: empty strings where the exception does not say."""
    if isinstance(error, ModuleNotFoundError):
        name = error.name or ""
    elif isinstance(error, ImportError):
        wanted = _WANTED.search(str(error))
        name = f"{error.name}.{wanted[1]}" if error.name and wanted else ""
    elif isinstance(error, AttributeError) and error.obj is not None and type(error.obj).__name__ not in _DECLARED:
        name = f"{_home(error.obj)}.{error.name}"
    else:
        name = ""
    return name.partition(".")[0], name


def _home(owner: object) -> str:
    if isinstance(owner, types.ModuleType):
        return owner.__name__
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__module__}.{kind.__qualname__}"


def _release(root: str) -> str:
    try:
        return f"{root} {version(root)}"
    except PackageNotFoundError:
        return root
