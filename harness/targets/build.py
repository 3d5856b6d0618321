"""The declared build: the custom operators that a full build of the subject for a target registers.

In: the subject's own ``csrc``, every file of it that registers operators; for a tree without one (an installed wheel)
the checked-in table of a release. Out: operator schemas by namespace, and their registration with torch. A declared
operator exists for whoever asks. A call with meta tensors gives tensors of the right shapes where there is a rule for
it (``fakes``, or vLLM's own fake implementation); any other call is noted in the journal and is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model.target import Platform, Target
from harness.targets import fakes
from harness.targets.journal import Journal
from harness.targets.operators import COMPILED, Declared, definitions, read_table
from harness.targets.preprocessor import preprocess
from harness.targets.queries import NAMESPACES

NATIVE_MODULES: Mapping[Platform, tuple[str, ...]] = {
    Platform.ROCM: ("_C", "_C_stable_libtorch", "_rocm_C", "_moe_C", "_moe_C_stable_libtorch"),
    Platform.CUDA: (
        "_C",
        "_C_stable_libtorch",
        "_moe_C",
        "_moe_C_stable_libtorch",
        "vllm_flash_attn._vllm_fa2_C",
        "vllm_flash_attn._vllm_fa3_C",
    ),
    Platform.XPU: (),
    Platform.CPU: ("_C", "_C_AVX512", "_C_AVX2"),
    Platform.NONE: (),
}
"""Compiled modules of the release build, below ``vllm.``. Source: vLLM's setup.py and CMakeLists.txt."""

_NAMESPACE_OF_FOLDER = {"rocm": "_rocm_C", "quickreduce": "_C", "moe": "_moe_C", "cpu": "_C"}
"""Namespace of ``TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ...)`` by innermost folder (vLLM's CMakeLists.txt)."""

_BUILT_FOR: Mapping[str, tuple[str, ...]] = {
    "octave_torch_bindings.cpp": ("gfx942", "gfx1100"),  # VLLM_OCTAVE_KV
    "flashkda_registration.cpp": ("cuda",),  # cmake/external_projects/flashkda.cmake
}
"""Files that only the builds for some platforms or gfx targets have. Source: CMakeLists.txt of vLLM 0.28 to 0.33."""

_ARCHS = re.compile(r'^\s*set\(HIP_SUPPORTED_ARCHS\s+"([^"]+)"', re.MULTILINE)

_KERNEL_FILES = ("cuda",)
"""Who builds a ``.cu`` file that registers an operator itself (NVFP4, DCP): none of vLLM 0.20 to 0.33 is ROCm's."""


@dataclass(frozen=True)
class DeclaredBuild:
    """Operators of a build."""

    schemas: tuple[Declared, ...] = ()
    release: str = ""
    """The release whose table the operators come from; empty where they are the subject's own."""

    @property
    def source(self) -> str:
        """Where the operators come from, in words; empty where they are the subject's own."""
        return f"operators.tsv: csrc of vLLM {self.release}; the subject has none" if self.release else ""


def macros_of(target: Target) -> dict[str, bool]:
    """Preprocessor macros of a build for this target alone. Source: vLLM's CMakeLists.txt.

    Macros that switch a kernel on by toolkit version (``ENABLE_...``, ``VLLM_ENABLE_...``) count as defined on CUDA.
    """
    rocm = target.platform is Platform.ROCM
    return {
        "USE_ROCM": rocm,
        "USE_CUDA": target.platform is Platform.CUDA,
        "VLLM_ROCM_GFX1100": target.gfx == "gfx1100",
        "VLLM_SKIP_SKINNY_GEMMS": target.gfx == "gfx1250",
        "VLLM_ENABLE_FUSED_KDA_DECODE": target.platform is Platform.CUDA or target.gfx in ("gfx942", "gfx950"),
        "VLLM_ENABLE_FUSED_KDA_CHUNK": target.gfx == "gfx950",
        "__AVX512F__": target.platform is Platform.CPU,
        "__AVX512BF16__": target.platform is Platform.CPU,
        "__AVX512VNNI__": target.platform is Platform.CPU,
        "__x86_64__": target.platform is Platform.CPU,
    }


def built_for(tree: Path) -> frozenset[str] | None:
    """The gfx targets that the subject's ROCm build serves: ``HIP_SUPPORTED_ARCHS`` of its CMakeLists.txt.

    None where the tree does not say: an installed wheel has no CMakeLists.txt.
    """
    try:
        text = (tree / "CMakeLists.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = _ARCHS.findall(text)
    return frozenset(";".join(found).split(";")) if found else None


def declared_build(tree: Path, target: Target) -> DeclaredBuild:
    """Read the operators of ``target``'s build out of the subject's ``csrc``, or of the table where it has none."""
    if target.platform not in COMPILED:
        return DeclaredBuild()
    if not (tree / "csrc").is_dir():
        table = read_table()
        return DeclaredBuild(table.of(target), table.release)
    found: dict[tuple[str, str], str] = {}
    for path, text in _registering(tree / "csrc"):
        folders = path.relative_to(tree / "csrc").parts[:-1]
        if not _is_built(path.name, folders, target):
            continue
        default = next((_NAMESPACE_OF_FOLDER[name] for name in reversed(folders) if name in _NAMESPACE_OF_FOLDER), "_C")
        for namespace, schema in definitions(preprocess(text, macros_of(target)), default):
            found.setdefault((namespace, schema.partition("(")[0]), schema)
    return DeclaredBuild(tuple((namespace, schema) for (namespace, _), schema in sorted(found.items())))


def _registering(folder: Path) -> list[tuple[Path, str]]:
    """The files that register operators, with their text."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".cu") and path.is_file())
    bodies = ((path, path.read_bytes()) for path in paths)
    return [(path, body.decode("utf-8", "replace")) for path, body in bodies if b"TORCH_LIBRARY" in body]


def _is_built(name: str, folders: tuple[str, ...], target: Target) -> bool:
    """Whether the build for ``target`` compiles the file."""
    rocm_only, cpu = "rocm" in folders, target.platform is Platform.CPU
    if ("cpu" in folders) != cpu or (rocm_only and target.platform is not Platform.ROCM):
        return False
    words = _BUILT_FOR.get(name, _KERNEL_FILES if name.endswith(".cu") and not rocm_only else ())
    return not words or target.gfx in words or target.platform.value in words


def register(build: DeclaredBuild, queries: Mapping[str, Callable[..., Any]], journal: Journal) -> list[object]:
    """Register the operators with torch.

    Args:
        build: what to declare.
        queries: operators that are pure functions of the device or the build, by name: these can be called.
        journal: where calls of the others are noted.

    Returns:
        The libraries; the operators live as long as they are kept.
    """
    import torch

    libraries: dict[str, Any] = {}
    for namespace, schema in build.schemas:
        library = libraries.setdefault(namespace, torch.library.Library(namespace, "FRAGMENT"))
        name = schema.partition("(")[0]
        function = queries.get(name) if namespace in NAMESPACES else None
        _define(library, schema, name, "int" if function is not None else "()")
        if function is not None:
            library.impl(name, function, "CompositeImplicitAutograd")
            continue
        # Every backend, with one key that leaves the key Meta free for the fake implementation that vLLM may register.
        library.impl(name, _uncallable(namespace, schema, journal), "CompositeExplicitAutograd")
    return list(libraries.values())


def _define(library: Any, schema: str, name: str, gives: str = "()") -> None:
    """Define an operator; ``gives`` is the result of one whose schema the subject leaves to the compiler."""
    try:
        library.define(schema if "(" in schema else f"{name}() -> {gives}")
    except RuntimeError:
        # This torch cannot parse the schema. The name must exist all the same: routing asks for no more.
        library.define(f"{name}() -> ()")


def _uncallable(namespace: str, schema: str, journal: Journal) -> Callable[..., Any]:
    """What runs on a call: the rule for meta tensors, or else the error."""
    name = f"{namespace}::{schema.partition('(')[0]}"
    rule = fakes.rule_of(namespace, schema)

    def call(*args: object, **kwargs: object) -> object:
        meta = fakes.are_meta(args, kwargs)
        if rule is not None and (meta or name in fakes.RELEASING):
            return rule(*args, **kwargs)
        raise journal.limit(f"operator {name}", "there is no rule for its shapes" if meta else "")

    return call
