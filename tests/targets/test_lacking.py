from __future__ import annotations

import importlib
import json
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.targets.lacking import lacking_package


def _error(do: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is the input
        do()
    return caught.value


def _run(code: str) -> Exception:
    return _error(lambda: exec(code, {}))


def test_a_package_that_is_not_installed_is_named() -> None:
    assert lacking_package(_run("import made_up_package")) == "package made_up_package, which is missing here"


def test_a_name_that_an_installed_package_does_not_have_is_named_with_its_release() -> None:
    missing = "which pytest " + importlib.import_module("pytest").__version__ + " does not have"
    assert lacking_package(_run("from pytest import made_up")) == f"pytest.made_up, {missing}"
    assert lacking_package(_run("import pytest; pytest.made_up")) == f"pytest.made_up, {missing}"
    assert lacking_package(_run("import pytest; pytest.Item.made_up")) == f"_pytest.nodes.Item.made_up, {_pytest()}"


def _pytest() -> str:
    return "which _pytest does not have"


def test_what_an_error_was_raised_from_counts() -> None:
    assert lacking_package(_run("try:\n import made_up\nexcept ImportError as e:\n raise RuntimeError() from e"))
    assert not lacking_package(_run("try:\n import made_up\nexcept ImportError:\n raise RuntimeError()"))


@pytest.mark.parametrize(
    "code",
    [
        "raise ImportError('no driver')",
        "None.x",
        "'text'.x",
        "import json; json.x",
        "raise KeyError('x')",
        "raise AssertionError('x')",
        "raise AttributeError('x')",
    ],
)
def test_an_error_that_is_about_no_package_says_nothing(code: str) -> None:
    assert lacking_package(_run(code)) == ""


@pytest.mark.parametrize("name", ["aiter", "amdsmi", "flashinfer.comm", "libtpu", "vllm.gone", "vllm.platforms.rocm"])
def test_a_package_that_the_target_decides_or_the_subject_itself_is_no_excuse(name: str) -> None:
    error = ModuleNotFoundError(f"No module named {name!r}", name=name)
    assert lacking_package(error) == ""


def test_an_operator_that_the_build_lacks_is_no_lack_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert lacking_package(_error(lambda: torch.ops._C.made_up_operator)) == ""
    assert lacking_package(_error(lambda: torch.made_up)).startswith("torch.made_up, which torch ")


def test_a_module_of_the_subject_that_lacks_a_name_is_the_subject_s(tmp_path: Path) -> None:
    module = types.ModuleType("vllm.config")
    assert lacking_package(_error(lambda: module.made_up)) == ""
    assert lacking_package(_error(lambda: json.loads("{"))) == ""


def test_nothing_lacks_nothing() -> None:
    assert lacking_package(None) == ""
