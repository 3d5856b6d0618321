from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model.target import Platform
from harness.targets.journal import Journal, PrivateImport, SimulationLimit
from harness.targets.packages import (
    OPTIONAL_PACKAGES,
    VENDOR_MODULES,
    AbsentFinder,
    StandInFinder,
    VllmMetadata,
    built_version,
    packages_of,
)


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every import hook of a test goes with it."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(importlib.util, "find_spec", importlib.util.find_spec)


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def subject(tmp_path: Path) -> Callable[[str], None]:
    """Runs code as a file of the subject's tree, ``vllm/layer.py``."""

    def run(code: str) -> None:
        exec(compile(code, str(tmp_path / "vllm" / "layer.py"), "exec"), {"__name__": "vllm.layer"})

    return run


def test_a_platform_has_the_packages_of_its_requirements_and_a_word_overrides_them() -> None:
    assert packages_of(Platform.ROCM, {})["quark"]
    assert not packages_of(Platform.CUDA, {})["quark"]
    assert packages_of(Platform.CUDA, {})["flashinfer"]
    chosen = packages_of(Platform.CUDA, {"flashinfer": False, "flash_attn": True})
    assert (chosen["flashinfer"], chosen["flash_attn"]) == (False, True)
    assert set(chosen) == set(OPTIONAL_PACKAGES)


# ---- absent packages


def test_absent_wins_over_installed(journal: Journal, tmp_path: Path) -> None:
    import colorsys  # noqa: F401 - it is installed, and nothing else needs it

    sys.modules.pop("colorsys")
    AbsentFinder(["colorsys"], [], tmp_path, journal).install()
    with pytest.raises(ModuleNotFoundError, match="No module named 'colorsys'") as caught:
        importlib.import_module("colorsys")
    assert caught.value.name == "colorsys"


def test_a_probe_for_an_absent_package_finds_nothing(journal: Journal, tmp_path: Path) -> None:
    AbsentFinder(["colorsys"], ["amdsmi"], tmp_path, journal).install()
    assert importlib.util.find_spec("colorsys") is None
    assert importlib.util.find_spec("amdsmi") is None
    assert importlib.util.find_spec("json") is not None
    assert journal == Journal()


def test_a_probe_below_an_absent_package_is_the_error_that_python_gives(journal: Journal, tmp_path: Path) -> None:
    AbsentFinder(["colorsys"], [], tmp_path, journal).install()
    with pytest.raises(ModuleNotFoundError, match="No module named 'colorsys'"):
        importlib.util.find_spec("colorsys.part")


def test_names_that_only_begin_like_an_absent_one_are_found(journal: Journal, tmp_path: Path) -> None:
    AbsentFinder(["color", "jso"], [], tmp_path, journal).install()
    assert importlib.util.find_spec("colorsys") is not None
    assert importlib.util.find_spec("json.decoder") is not None


# ---- modules private to another platform


def test_a_private_import_is_noted_with_the_module_the_line_and_the_function(
    journal: Journal, tmp_path: Path, subject: Callable[[str], None]
) -> None:
    AbsentFinder([], ["vllm.platforms.rocm"], tmp_path, journal).install()
    sys.modules["vllm"] = sys.modules["vllm.platforms"] = type(sys)("vllm")
    sys.modules["vllm"].__path__ = []
    sys.modules["vllm.platforms"].__path__ = []
    with pytest.raises(ModuleNotFoundError):
        subject("x = 1\ndef gemm():\n    from vllm.platforms.rocm import on_gfx1250\ngemm()")
    assert journal.private == [PrivateImport("vllm.platforms.rocm", "vllm/layer.py:3 in gemm")]


def test_a_private_import_is_noted_although_the_subject_swallows_the_error(
    journal: Journal, tmp_path: Path, subject: Callable[[str], None]
) -> None:
    AbsentFinder([], ["amdsmi"], tmp_path, journal).install()
    subject("try:\n    import amdsmi\nexcept ImportError:\n    pass")
    subject("import importlib\ntry:\n    importlib.import_module('amdsmi')\nexcept ImportError:\n    pass")
    assert [hit.importer for hit in journal.private] == ["vllm/layer.py:2 in <module>", "vllm/layer.py:3 in <module>"]


def test_the_same_import_from_outside_the_subject_is_no_fault_of_the_subject(journal: Journal, tmp_path: Path) -> None:
    AbsentFinder([], ["amdsmi"], tmp_path, journal).install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("amdsmi")
    assert journal.private == []


def test_the_subject_may_detect_its_platform(journal: Journal, tmp_path: Path, subject: Callable[[str], None]) -> None:
    AbsentFinder([], ["amdsmi"], tmp_path, journal).install()
    detect = "def {}():\n    try:\n        import amdsmi\n    except ImportError:\n        return\n{}()"
    subject(detect.format("rocm_platform_plugin", "rocm_platform_plugin"))
    assert journal.private == []
    subject(detect.format("rocm_platform", "rocm_platform"))
    assert len(journal.private) == 1


def test_an_import_of_an_absent_package_that_is_no_vendor_s_is_no_fault(
    journal: Journal, tmp_path: Path, subject: Callable[[str], None]
) -> None:
    AbsentFinder(["flash_attn"], ["amdsmi"], tmp_path, journal).install()
    with pytest.raises(ModuleNotFoundError):
        subject("import flash_attn")
    assert journal.private == []


def test_every_vendor_module_has_a_platform_of_its_own() -> None:
    assert all(VENDOR_MODULES.values())
    assert VENDOR_MODULES["vllm.platforms.rocm"] == {Platform.ROCM}


# ---- packages taken as present


def test_a_stand_in_can_be_imported_at_any_depth_and_its_attributes_exist(journal: Journal) -> None:
    sys.meta_path.insert(0, StandInFinder("made_up", journal))
    deep = importlib.import_module("made_up.ops.gemm")
    assert deep.matmul.__name__ == "matmul"
    assert importlib.util.find_spec("made_up.anything") is not None
    assert importlib.util.find_spec("made_up_more") is None
    assert journal == Journal()


def test_a_call_of_a_stand_in_is_noted_although_it_is_swallowed(journal: Journal) -> None:
    sys.meta_path.insert(0, StandInFinder("made_up", journal))
    module = importlib.import_module("made_up.ops")
    with pytest.raises(SimulationLimit, match=r"made_up\.ops\.matmul: device code"):
        module.matmul(1, out=2)
    assert journal.unanswerable == ["what made_up.ops.matmul does"]


def test_an_attribute_of_a_stand_in_s_function_is_a_limit_too(journal: Journal) -> None:
    sys.meta_path.insert(0, StandInFinder("made_up", journal))
    module = importlib.import_module("made_up")
    with pytest.raises(SimulationLimit):
        module.VERSION.startswith("1.")
    assert journal.unanswerable == ["what made_up.VERSION.startswith does"]


def test_the_parameters_of_a_stand_in_s_function_are_assumed_and_none_has_a_name(journal: Journal) -> None:
    sys.meta_path.insert(0, StandInFinder("made_up", journal))
    signature = inspect.signature(importlib.import_module("made_up.ops").matmul)
    assert str(signature) == "(*args, **kwargs)"
    assert set(journal.unknown) == {"which parameters made_up.ops.matmul takes"}


def test_a_stand_in_has_no_dunder_that_python_itself_looks_for(journal: Journal) -> None:
    sys.meta_path.insert(0, StandInFinder("made_up", journal))
    module = importlib.import_module("made_up")
    assert not hasattr(module, "__version__")
    assert not hasattr(module.matmul, "__wrapped__")
    assert journal == Journal()


@pytest.mark.parametrize(
    ("version", "platform", "built"),
    [
        ("0.20.0", Platform.CPU, "0.20.0+cpu"),
        ("0.20.0+cu128", Platform.CPU, "0.20.0+cpu"),
        ("0.20.0+cpu", Platform.ROCM, "0.20.0"),
        ("unknown", Platform.NONE, "unknown"),
    ],
)
def test_only_a_cpu_build_says_so_in_its_version(version: str, platform: Platform, built: str) -> None:
    assert built_version(version, platform) == built


def test_the_version_of_vllm_is_that_of_the_subject() -> None:
    sys.meta_path.insert(0, VllmMetadata("0.99.0"))
    assert importlib.metadata.version("vllm") == "0.99.0"
    assert importlib.metadata.version("pytest") == pytest.__version__
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("made-up-distribution")
