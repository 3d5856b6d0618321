"""What a built distribution carries: the suites run from a wheel outside the clone, and nothing else slips in.

The archives are built by the build back end itself, without isolation, so that no network is needed.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PINNED = "harness/subjects/vllm-requirements.txt"
CACHES = ("__pycache__", ".pyc", "_cache/")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the tree as it is."""
    return _build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    """The members of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def sdist_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The members of the source distribution, without its top folder."""
    with tarfile.open(_build("sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        return {name.split("/", 1)[1] for name in archive.getnames()}


def test_the_wheel_carries_every_suite_and_fixture_of_the_clone(wheel_names: set[str]) -> None:
    expected = {f"harness/_bundled/{name}" for name in _shipped("suites", "fixtures")}
    assert expected, "the clone has no suites"
    assert expected <= wheel_names


def test_the_sdist_carries_every_suite_and_fixture_of_the_clone(sdist_names: set[str]) -> None:
    assert _shipped("suites", "fixtures", "harness") <= sdist_names


@pytest.mark.parametrize("name", ["harness/_bundled/matrix.yaml", "harness/py.typed", "harness/bundled.py", PINNED])
def test_the_wheel_carries_the_files_a_run_needs(wheel_names: set[str], name: str) -> None:
    assert name in wheel_names


@pytest.mark.parametrize("name", ["matrix.yaml", "harness/py.typed", PINNED, "pyproject.toml", "LICENSE", "README.md"])
def test_the_sdist_carries_what_a_build_needs(sdist_names: set[str], name: str) -> None:
    assert name in sdist_names


def test_the_wheel_installs_the_package_harness_and_nothing_beside_it(wheel_names: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"harness"}


def test_no_test_of_the_harness_and_no_cache_is_shipped(wheel_names: set[str], sdist_names: set[str]) -> None:
    names = wheel_names | sdist_names
    assert not [name for name in names if name.startswith("tests/") or any(part in name for part in CACHES)]


def test_the_wheel_names_the_command_and_the_pytest_plugin(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entry_points = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()
    assert "gfxloop = harness.cli:main" in text
    assert "[pytest11]\ngfxloop = harness.plugin" in text


def test_an_unpacked_wheel_finds_its_own_suites_and_matrix_outside_the_clone(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "from harness import bundled; print(bundled.suites_dir(), bundled.fixtures_dir(), bundled.matrix_path())"
    found = _python("-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}", cwd=tmp_path).split()
    home = tmp_path / "harness" / "_bundled"
    assert [Path(path) for path in found] == [home / "suites", home / "fixtures", home / "matrix.yaml"]
    assert (home / "matrix.yaml").read_bytes() == (ROOT / "matrix.yaml").read_bytes()


def test_every_requirement_of_the_vllm_extra_is_pinned_as_it_asks() -> None:
    pins = _pins()
    extra = [Requirement(text) for text in _project()["optional-dependencies"]["vllm"]]
    assert len(extra) > 20
    assert not [str(wanted) for wanted in extra if not wanted.specifier.contains(pins[canonicalize_name(wanted.name)])]


def test_the_pinned_list_holds_exact_pins_and_nothing_that_routing_decides_by() -> None:
    pins = _pins()
    assert not pins.keys() & {"amd-quark", "amd-aiter", "flashinfer-python", "torchvision", "torchaudio", "torchcodec"}
    assert not [name for name in pins if name.startswith("nvidia-") or name == "vllm"]


def test_the_pinned_list_and_the_core_requirements_agree() -> None:
    pins = _pins()
    core = [Requirement(text) for text in _project()["dependencies"]]
    shared = [wanted for wanted in core if canonicalize_name(wanted.name) in pins]
    assert shared, "the core shares no requirement with vLLM"
    assert not [str(wanted) for wanted in shared if not wanted.specifier.contains(pins[canonicalize_name(wanted.name)])]


def _project() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _pins() -> dict[str, str]:
    """Canonical name -> version; a line that is no exact pin is an error."""
    pins = {}
    for line in (ROOT / PINNED).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, version = line.split("==")
            pins[canonicalize_name(name)] = version
    return pins


def _shipped(*folders: str) -> set[str]:
    """The files of the clone that belong in a distribution: tracked ones and new ones that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git clone, so what should be shipped is unknown")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def _build(kind: str, directory: Path) -> Path:
    code = f"import sys; from hatchling.build import build_{kind}; build_{kind}(sys.argv[1])"
    _python("-c", code, str(directory), cwd=ROOT)
    (archive,) = directory.iterdir()
    return archive


def _python(*arguments: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
