"""The declared build: the custom operators that a full build of the subject for a target registers.

In: the subject's own ``csrc/**/*bindings.cpp``. Out: operator schemas by namespace, and their registration with torch.
A declared operator exists for whoever asks; a call of one is noted in the journal and is an error that names it.
A tree without ``csrc`` (an installed wheel) declares nothing, and a question for an operator is noted as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model.target import Platform, Target
from harness.targets.journal import Journal

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

_BUILT_FOR: Mapping[str, tuple[str, ...]] = {"octave_torch_bindings.cpp": ("gfx942", "gfx1100")}
"""Files that only the builds for some gfx targets have. Source: VLLM_OCTAVE_KV of vLLM 0.33.0's CMakeLists.txt."""

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b[ \t]*(.*?)[ \t]*(?://.*)?$")
_LIBRARY = re.compile(
    r"\b(?:STABLE_)?TORCH_LIBRARY(?:_FRAGMENT|_EXPAND)?\s*\(\s*"
    r"(?:(\w+)|CONCAT\(\s*TORCH_EXTENSION_NAME\s*,\s*(\w+)\s*\))\s*,\s*(\w+)\s*\)"
)
_DEFINITION = re.compile(r'\b(\w+)\s*\.\s*def\s*\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class DeclaredBuild:
    """Operators of a build."""

    known: bool
    """False for a tree without csrc: then nothing can be said of any operator."""
    schemas: tuple[tuple[str, str], ...] = ()
    """(namespace, schema), the schema as torch parses it or a bare name."""


def macros_of(target: Target) -> dict[str, bool]:
    """Preprocessor macros of a build for this target alone. Source: vLLM's CMakeLists.txt.

    Macros that switch a kernel on by toolkit version (``ENABLE_...``, ``VLLM_ENABLE_...``) count as defined on CUDA.
    """
    rocm = target.platform is Platform.ROCM
    return {
        "USE_ROCM": rocm,
        "USE_CUDA": target.platform is Platform.CUDA,
        "VLLM_ROCM_GFX1100": rocm and target.gfx.startswith("gfx11"),
        "VLLM_SKIP_SKINNY_GEMMS": target.gfx == "gfx1250",
        "__AVX512F__": target.platform is Platform.CPU,
        "__AVX512BF16__": target.platform is Platform.CPU,
        "__AVX512VNNI__": target.platform is Platform.CPU,
        "__x86_64__": target.platform is Platform.CPU,
    }


def declared_build(tree: Path, target: Target) -> DeclaredBuild:
    """Read the operators of ``target``'s build out of the subject's ``csrc``."""
    if target.platform in (Platform.XPU, Platform.NONE):
        return DeclaredBuild(known=True)  # no compiled module of vLLM's own: XPU kernels are a package
    files = sorted((tree / "csrc").rglob("*bindings.cpp"))
    if not files:
        return DeclaredBuild(known=False)
    cpu = target.platform is Platform.CPU
    found: dict[tuple[str, str], str] = {}
    for path in files:
        folders = path.relative_to(tree / "csrc").parts[:-1]
        if ("cpu" in folders) != cpu or ("rocm" in folders and target.platform is not Platform.ROCM):
            continue
        if target.gfx not in _BUILT_FOR.get(path.name, (target.gfx,)):
            continue
        default = next((_NAMESPACE_OF_FOLDER[name] for name in reversed(folders) if name in _NAMESPACE_OF_FOLDER), "_C")
        text = path.read_text(encoding="utf-8", errors="replace")
        for namespace, schema in definitions(_preprocess(text, macros_of(target)), default):
            found.setdefault((namespace, schema.partition("(")[0]), schema)
    return DeclaredBuild(True, tuple((namespace, schema) for (namespace, _), schema in sorted(found.items())))


def definitions(text: str, default: str) -> list[tuple[str, str]]:
    """(namespace, schema) of every ``.def("...")`` in preprocessed C++ text."""
    libraries = [
        (found.start(), default + (suffix or "") if name in (None, "TORCH_EXTENSION_NAME") else name, variable)
        for found in _LIBRARY.finditer(text)
        for name, suffix, variable in [found.groups()]
    ]
    out = []
    for match in _DEFINITION.finditer(text):
        inside = [(name, variable) for start, name, variable in libraries if start < match.start()]
        if not inside or inside[-1][1] != match.group(1):
            continue
        schema = " ".join("".join(_STRING.findall(match.group(2))).split())
        out.append((inside[-1][0], schema))
    return out


def _preprocess(text: str, macros: Mapping[str, bool]) -> str:
    """Keep the lines that a compiler would keep. Only conditionals are evaluated."""
    kept: list[str] = []
    stack: list[tuple[bool, bool]] = []  # (this branch is on, some branch was on already)
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        match = _DIRECTIVE.match(line)
        if match is None:
            if all(on for on, _ in stack):
                kept.append(line)
            continue
        word, condition = match.groups()
        if word == "endif":
            if stack:
                stack.pop()
        elif word in ("else", "elif"):
            _, done = stack.pop() if stack else (False, True)
            on = not done and (word == "else" or _holds(condition, macros))
            stack.append((on, done or on))
        else:
            expression = {"ifdef": f"defined({condition})", "ifndef": f"!defined({condition})"}.get(word, condition)
            on = _holds(expression, macros)
            stack.append((on, on))
    return "\n".join(kept)


def _holds(expression: str, macros: Mapping[str, bool]) -> bool:
    """Value of a conditional made of macros, ``defined``, ``!``, ``&&`` and ``||``; other words count as false."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        enabled = name.startswith(("ENABLE_", "VLLM_ENABLE_")) and not macros["USE_ROCM"]
        return str(macros.get(name, enabled))

    expression = re.sub(r"//.*|/\*.*?\*/", "", expression)
    words = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?|\b([A-Za-z_]\w*)\b", value, expression)
    words = words.replace("&&", " and ").replace("||", " or ").replace("!", " not ")
    if not re.fullmatch(r"(?:\s|True|False|and|or|not|[()])*", words):
        return False  # arithmetic on toolkit versions: no operator that routing asks for hangs on one
    return bool(eval(words)) if words.strip() else False


def register(build: DeclaredBuild, queries: Mapping[str, Callable[..., Any]], journal: Journal) -> list[object]:
    """Register the operators with torch.

    Args:
        build: what to declare.
        queries: operators of namespace ``_C`` that are pure functions of the device, by name: these can be called.
        journal: where calls of the others, and questions about an unknown build, are noted.

    Returns:
        The libraries; the operators live as long as they are kept.
    """
    import torch

    libraries: dict[str, Any] = {}
    for namespace, schema in build.schemas:
        library = libraries.setdefault(namespace, torch.library.Library(namespace, "FRAGMENT"))
        name = schema.partition("(")[0]
        _define(library, schema, name)
        function = queries.get(name) if namespace == "_C" else None
        if function is not None:
            library.impl(name, function, "CompositeImplicitAutograd")
            continue
        key = "CPU" if "Tensor" in schema else "CompositeExplicitAutograd"  # without a tensor nothing picks a backend
        library.impl(name, _uncallable(f"operator {namespace}::{name}", journal), key)
    if not build.known:
        _watch_unknown_operators(("_C", "_moe_C", "_rocm_C", "_C_cache_ops", "_C_custom_ar"), journal)
    return list(libraries.values())


def _define(library: Any, schema: str, name: str) -> None:
    try:
        library.define(schema if "(" in schema else f"{name}() -> ()")
    except RuntimeError:
        # This torch cannot parse the schema. The name must exist all the same: routing asks for no more.
        library.define(f"{name}() -> ()")


def _uncallable(what: str, journal: Journal) -> Callable[..., Any]:
    def call(*_args: object, **_kwargs: object) -> object:
        raise journal.limit(what)

    return call


def _watch_unknown_operators(namespaces: Sequence[str], journal: Journal) -> None:
    """Note every question for an operator of a build that nothing is known of."""
    import torch._ops

    kind: Any = torch._ops._OpNamespace
    real = kind.__getattr__

    def __getattr__(self: Any, name: str) -> object:
        try:
            return real(self, name)
        except AttributeError:
            if self.name in namespaces and not name.startswith("__"):
                journal.unanswerable.append(
                    f"whether the build has operator {self.name}::{name} (the subject has no csrc)"
                )
            raise

    kind.__getattr__ = __getattr__
