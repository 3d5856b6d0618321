"""Real AITER on a machine without a GPU: what its import needs, and nothing else of it is replaced.

In: AITER's tree and a target. Out: ``import aiter`` works in this process. AITER finds its target through ``rocminfo``
and the variables ``GPU_ARCHS`` and ``CU_NUM``, asks ``hipconfig`` for a version, and loads two JIT-built modules that
hold its enumerations; these answer from the table of facts and from AITER's own header. Everything else is AITER's.
"""

from __future__ import annotations

import enum
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

from harness.model.target import Target
from harness.targets.drivers import HIP_VERSION, Lasting, stand_in_module

_ENUM = re.compile(r"enum class (\w+)\s*:\s*int\s*\{(.*?)\}", re.DOTALL)


def install_aiter_tree(target: Target, tree: Path, scratch: Path) -> None:
    """Make ``import aiter`` find the package in ``tree``, on a machine that looks like ``target``."""
    tools = _write_tools(target, scratch / "rocm")
    os.environ.update(
        GPU_ARCHS=target.gfx,
        CU_NUM=str(target.cu_count),
        AITER_JIT_DIR=str(scratch / "jit"),
        ROCM_HOME=str(tools.parent),
        ROCM_PATH=str(tools.parent),
        PATH=f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
    )
    (scratch / "jit").mkdir(parents=True, exist_ok=True)
    sys.path[:0] = [str(tree), str(tree / "aiter" / "jit" / "utils")]
    for name in ("module_aiter_core", "module_aiter_enum"):
        stand_in_module(name, Lasting(), **enumerations(tree))
    _register_on_cpu()


def enumerations(tree: Path) -> dict[str, type[enum.IntEnum]]:
    """AITER's enumerations, read from its own ``aiter_enum.h``."""
    headers = [tree / "csrc/include/aiter_enum.h", tree / "aiter_meta/csrc/include/aiter_enum.h"]
    text = next((path.read_text(encoding="utf-8") for path in headers if path.is_file()), "")
    return {name: _enumeration(name, body) for name, body in _ENUM.findall(text)}


def _enumeration(name: str, body: str) -> type[enum.IntEnum]:
    members: dict[str, int] = {}
    following = 0
    for item in re.sub(r"//.*", "", body).split(","):
        label, _, value = (part.strip() for part in item.partition("="))
        if label:
            members[label] = int(value) if value else following
            following = members[label] + 1
    made: type[enum.IntEnum] = enum.IntEnum(name, members)  # type: ignore[misc]
    made.__doc__ = "Members:\n\n" + "\n\n".join(members)  # AITER reads the members from a pybind docstring
    return made


def _write_tools(target: Target, root: Path) -> Path:
    """``hipconfig`` and ``rocminfo`` that answer for the target."""
    folder = root / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    scripts = {
        "hipconfig": f"#!/bin/sh\necho {HIP_VERSION}.0\n",
        "rocminfo": (
            "#!/bin/sh\ncat <<END\nAgent 1\n  Name:                    " + target.gfx + "\n"
            f"  Device Type:             GPU\n  Compute Unit:            {target.cu_count}\nEND\n"
        ),
    }
    for name, text in scripts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def _register_on_cpu() -> None:
    """AITER registers its JIT operators with a dummy tensor on device ``cuda``; here it must be ``cpu``."""
    import importlib

    try:
        guard: Any = importlib.import_module("torch_guard")
    except ModuleNotFoundError:
        return  # an AITER that registers without it
    real = guard.torch_compile_guard

    def torch_compile_guard(*args: object, **options: object) -> object:
        return real(*args, **{**options, "device": "cpu"})

    guard.torch_compile_guard = torch_compile_guard
