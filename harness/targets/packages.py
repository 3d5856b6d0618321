"""Optional packages that decide routing: which a target has, and the import hooks that make it so.

In: names taken as present or absent. Out: finders for ``sys.meta_path``. A present package is a stand-in whose every
attribute exists and whose every call is noted in the journal as device code; an absent one cannot be found, whatever
is installed on this machine.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path

from harness.model.target import Platform
from harness.targets.journal import Journal, PrivateImport, SimulationLimit


@dataclass(frozen=True)
class OptionalPackage:
    """One optional package. ``present_on``: platforms whose release image has it."""

    present_on: frozenset[Platform] = frozenset()
    source: str = "not in vLLM's requirements/: absent unless named with --packages"


_ROCM = OptionalPackage(frozenset({Platform.ROCM}), "vLLM requirements/rocm.txt")
_CUDA = OptionalPackage(frozenset({Platform.CUDA}), "vLLM requirements/cuda.txt")
_XPU = OptionalPackage(frozenset({Platform.XPU}), "vLLM requirements/xpu.txt (vllm_xpu_kernels)")
_NONE = OptionalPackage()

OPTIONAL_PACKAGES: Mapping[str, OptionalPackage] = {
    "conch": _ROCM,
    "quark": _ROCM,
    "tilelang": OptionalPackage(_ROCM.present_on | _CUDA.present_on, "vLLM requirements/rocm.txt and cuda.txt"),
    "flashinfer": _CUDA,
    "humming": _CUDA,
    "cutlass": _CUDA,
    "vllm_xpu_kernels": _XPU,
    "flash_attn": _NONE,
    "deep_gemm": _NONE,
    "deep_ep": _NONE,
    "fbgemm_gpu": _NONE,
    "b12x": _NONE,
    "triton_kernels": OptionalPackage(
        _ROCM.present_on | _CUDA.present_on, "vLLM CMakeLists.txt: builds for CUDA and HIP bring it as vllm.third_party"
    ),
    "torchao": _NONE,
    "zentorch": _NONE,
    "mori": _NONE,
    "nixl_ep": _NONE,
    "moonep": _NONE,
    "helion": _NONE,
    "hpc": _NONE,
    "flydsl": _NONE,
    "arctic_inference": _NONE,
    "nvidia": OptionalPackage(source="libraries of a CUDA toolkit: looked for at run time, never by a selector"),
    "numba": OptionalPackage(source="requirements/rocm.txt and cuda.txt, n-gram speculation only: no selector asks"),
}
"""Every optional top-level package that vLLM's selectors look for, by import name."""

ALWAYS_ABSENT = ("libtpu",)
"""Packages that would make another platform of the machine: a target never has them."""

VENDOR_MODULES: Mapping[str, frozenset[Platform]] = {
    "amdsmi": frozenset({Platform.ROCM}),
    "vllm.platforms.rocm": frozenset({Platform.ROCM}),
    "vllm._rocm_C": frozenset({Platform.ROCM}),
    "vllm.platforms.cuda": frozenset({Platform.CUDA}),
    "vllm.platforms.xpu": frozenset({Platform.XPU}),
    "pynvml": frozenset({Platform.CUDA}),
}
"""Modules private to a platform. Importing one elsewhere is a fault of the importer (``vllm.platforms.cuda`` and
``xpu`` are probed by vLLM's own platform detection, which is let through)."""


def packages_of(platform: Platform, chosen: Mapping[str, bool]) -> dict[str, bool]:
    """Presence of every optional package on ``platform``; ``chosen`` (of ``--packages``) wins."""
    default = {name: platform in row.present_on for name, row in OPTIONAL_PACKAGES.items()}
    return {**default, **chosen}


class StandInFinder(importlib.machinery.PathFinder):
    """Finds ``root`` and all below it as stand-in packages."""

    def __init__(self, root: str, journal: Journal) -> None:
        self._root = root
        self._journal = journal

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for ``root`` and every module below it."""
        if name == self._root or name.startswith(self._root + "."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Python's default module."""
        return

    def exec_module(self, module: types.ModuleType) -> None:
        """Give the module attributes that exist and cannot be called."""
        module.__path__ = []
        module.__file__ = f"<stand-in for {module.__name__}>"
        journal = self._journal

        def __getattr__(name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            return DeviceFunction(f"{module.__name__}.{name}", journal)

        module.__getattr__ = __getattr__  # type: ignore[method-assign]


class DeviceFunction:
    """An attribute that exists, and that notes itself in the journal and raises when it is used."""

    def __init__(self, name: str, journal: Journal) -> None:
        self.__name__ = name.rpartition(".")[2]
        self.__qualname__ = name
        self._journal = journal

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        """Note the call and raise."""
        raise self._limit(self.__qualname__)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._limit(f"{self.__qualname__}.{name}")

    @property
    def __signature__(self) -> inspect.Signature:
        """Which parameters the real one takes hangs on its version: noted, and answered with none by name."""
        self._journal.unknown.append(f"which parameters {self.__qualname__} takes")
        names = (("args", inspect.Parameter.VAR_POSITIONAL), ("kwargs", inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in names])

    def __or__(self, _other: object) -> DeviceFunction:
        """A type of the package in an annotation: ``X | None``."""
        return self

    __ror__ = __or__

    def _limit(self, what: str) -> SimulationLimit:
        root = what.partition(".")[0]
        optional = f"pass --packages=-{root} to take it as absent" if root in OPTIONAL_PACKAGES else ""
        return self._journal.limit(what, optional)


class AbsentFinder:
    """Makes modules impossible to find, and notes when the subject imports one private to another platform.

    An import gets ModuleNotFoundError and a probe by ``importlib.util.find_spec`` gets None, as on a machine without
    the module.
    """

    def __init__(self, absent: Sequence[str], private: Sequence[str], tree: Path, journal: Journal) -> None:
        self._names = frozenset(absent) | frozenset(private)
        self._private = frozenset(private)
        self._tree = f"{tree}{os.sep}"
        self._journal = journal

    def install(self) -> None:
        """Put the finder first on ``sys.meta_path`` and before ``importlib.util.find_spec``."""
        real = importlib.util.find_spec

        def find_spec(name: str, package: str | None = None) -> importlib.machinery.ModuleSpec | None:
            blocked = self._blocked(name)
            if blocked is None:
                return real(name, package)
            if blocked != name:  # the real one imports the parent first
                raise ModuleNotFoundError(f"No module named {blocked!r}", name=blocked)
            return None

        importlib.util.find_spec = find_spec
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """None for what is not blocked; otherwise what an import gets on a machine that lacks the module."""
        blocked = self._blocked(name)
        if blocked is None:
            return
        importer = self._importer()
        if blocked in self._private and importer is not None:
            self._journal.private.append(PrivateImport(name, importer))
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _blocked(self, name: str) -> str | None:
        parts = name.split(".")
        parents = (".".join(parts[: end + 1]) for end in range(len(parts)))
        return next((parent for parent in parents if parent in self._names), None)

    def _importer(self) -> str | None:
        """``file:line in function`` of the subject's frame that imports, or None when it only detects its platform."""
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and (
            frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_globals.get("__name__") == "importlib"
        ):
            frame = frame.f_back
        if frame is None or not frame.f_code.co_filename.startswith(self._tree):
            return None
        if frame.f_code.co_name.endswith("_platform_plugin"):
            return None
        return f"{frame.f_code.co_filename.removeprefix(self._tree)}:{frame.f_lineno} in {frame.f_code.co_name}"


def built_version(version: str, platform: Platform) -> str:
    """The version that the metadata of a build of vLLM for ``platform`` states: that of a CPU build ends in ``+cpu``.

    vLLM looks for the word to tell a CPU build. Source: ``get_vllm_version`` of vLLM's setup.py.
    """
    return version.partition("+")[0] + ("+cpu" if platform is Platform.CPU else "")


class VllmMetadata(DistributionFinder):
    """Answers ``importlib.metadata.version("vllm")``: a tree has no metadata, or that of a source distribution."""

    def __init__(self, version: str) -> None:
        self._version = version

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> list[Distribution]:
        """One distribution for ``vllm``, none for any other name."""
        return [_Metadata(self._version)] if context is not None and context.name == "vllm" else []

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Finds no module: this finder only answers for metadata."""
        return


class _Metadata(Distribution):
    def __init__(self, version: str) -> None:
        self._version = version

    def read_text(self, filename: str) -> str | None:
        text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {self._version}\n"
        return text if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))
