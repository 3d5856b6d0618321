import ast
import importlib.util
import sys
import types
from pathlib import Path

import pytest

from harness.targets.rebinding import Bound, baked, bindings, conftests, holders, value_of

IMPORTS = """
import os
import vllm
import vllm.envs
import vllm.config as config
from vllm.platforms import current_platform as platform
from vllms import other
try:
    from vllm.utils import has_x
except ImportError:
    has_x = None

def inside():
    from vllm import LLM
"""


def test_top_level_imports_of_vllm_are_bindings_and_no_others() -> None:
    assert bindings(ast.parse(IMPORTS)) == [
        Bound("vllm", "vllm", None),
        Bound("vllm", "vllm", None),
        Bound("config", "vllm.config", None),
        Bound("platform", "vllm.platforms", "current_platform"),
        Bound("has_x", "vllm.utils", "has_x"),
    ]


HEAD = "from vllm.platforms import current_platform\nfrom vllm import LLM\nfrom vllm.logger import init_logger\n"


@pytest.mark.parametrize(
    "code",
    [
        "X = current_platform.fp8_dtype()",
        "if current_platform.is_rocm():\n    pass",
        "@mark(current_platform.is_rocm())\ndef f(): pass",
        "def f(x=current_platform.is_rocm()): pass",
        "class C:\n    x = current_platform.is_rocm()",
        "X = [n for n in range(3) if current_platform.is_rocm()]",
    ],
)
def test_a_question_at_import_is_baked_in(code: str) -> None:
    for strict in (True, False):
        assert [(place.where, place.name) for place in baked("t.py", ast.parse(HEAD + code), strict=strict)] == [
            ("t.py:4", "current_platform") if not code.startswith("class") else ("t.py:5", "current_platform")
        ]


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    return current_platform.is_rocm()",
        "f = lambda: current_platform.is_rocm()",
        "def f(x: LLM) -> LLM: pass",
        "x: LLM = None",
        "logger = init_logger(__name__)",
    ],
)
def test_what_is_asked_later_is_not(code: str) -> None:
    assert baked("t.py", ast.parse(HEAD + code), strict=True) == []


def test_a_base_class_counts_in_the_test_itself_only() -> None:
    tree = ast.parse(HEAD + "class Mine(LLM): pass")
    assert [place.name for place in baked("t.py", tree, strict=True)] == ["LLM"]
    assert baked("t.py", tree, strict=False) == []


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, types.ModuleType]:
    texts = {
        "kit_test": "import json\nimport pytest\nimport kit_first\n",
        "kit_first": "from kit_second import x\n",
        "kit_second": "import kit_test\nx = 1\n",
        "kit_other": "",
        "conftest": "",
    }
    made = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        made[name] = types.ModuleType(name)
        made[name].__file__ = str(path)
        monkeypatch.setitem(sys.modules, name, made[name])
    return made


def test_a_tests_holders_are_what_its_imports_lead_to(modules: dict[str, types.ModuleType]) -> None:
    assert holders(modules["kit_test"]) == [modules[name] for name in ("kit_test", "kit_first", "kit_second")]
    assert holders(modules["kit_other"]) == [modules["kit_other"]]


def test_conftests_are_found_by_their_file(modules: dict[str, types.ModuleType]) -> None:
    assert modules["conftest"] in conftests()
    assert modules["kit_other"] not in conftests()


def test_a_binding_is_what_its_statement_gives_now() -> None:
    assert value_of(Bound("x", "importlib", "util")) is importlib.util
    assert value_of(Bound("x", "importlib.util", None)) is importlib.util
    assert value_of(Bound("x", "ast", "parse")) is ast.parse
    with pytest.raises(ImportError):
        value_of(Bound("x", "ast", "no_such_name"))
