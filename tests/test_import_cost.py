"""What an import of the harness may load: never the stack under test, and nothing slow on the way to ``--help``.

Each case runs in a fresh interpreter in which the forbidden packages cannot be imported and every attempt is noted,
so a ``try: import torch`` is seen too. Nothing here is tied to wall time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNDER_TEST = ("aiter", "amdsmi", "lm_eval", "torch", "transformers", "triton", "vllm")
SLOW = ("jinja2", "pydantic", "requests", "rich", "ruamel")

PRELUDE = """
import json, sys
class Blocker:
    attempts = []
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            self.attempts.append(name)
            raise ModuleNotFoundError(f"No module named {{name!r}} (blocked)", name=name)
sys.meta_path.insert(0, Blocker())
sys.path.insert(0, {root!r})
try:
{code}
finally:
    print("\\nATTEMPTS", json.dumps(sorted(set(Blocker.attempts))))
"""

PRELOADS = "harness.targets.preload"
"""The one module that is there to load the stack: the fork server imports it, and nobody else does."""

EVERY_MODULE = f"""
import importlib, pkgutil, harness
for found in pkgutil.walk_packages(harness.__path__, "harness."):
    if found.name != {PRELOADS!r} and not found.name.endswith("__main__"):
        importlib.import_module(found.name)
assert {PRELOADS!r} not in sys.modules
print("IMPORTED", sum(name.startswith("harness.") for name in sys.modules))
"""


def test_the_package_itself_loads_nothing_but_the_standard_library() -> None:
    assert _attempts("import harness", UNDER_TEST + SLOW) == []


def test_every_module_of_the_harness_imports_without_the_stack_under_test() -> None:
    output = _run(EVERY_MODULE, UNDER_TEST)
    assert _parse(output) == []
    assert "IMPORTED" in output, output
    assert int(output.split("IMPORTED ")[1].split()[0]) > 30


@pytest.mark.parametrize("command", ["check", "compare", "explain", "matrix", "reproduce", "run"])
def test_the_help_of_a_command_does_not_load_the_stack_under_test(command: str) -> None:
    code = f"sys.argv = {['gfxloop', command, '--help']!r}\nfrom harness.cli import main\nmain()"
    assert _attempts(code, UNDER_TEST) == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_loads_neither_the_stack_under_test_nor_a_slow_library(arguments: list[str]) -> None:
    code = f"sys.argv = {['gfxloop', *arguments]!r}\nfrom harness.cli import main\nmain()"
    assert _attempts(code, UNDER_TEST + SLOW) == []


def test_help_answers_with_the_names_of_the_commands() -> None:
    code = "sys.argv = ['gfxloop', '--help']\nfrom harness.cli import main\nmain()"
    output = _run(code, UNDER_TEST + SLOW)
    assert "check" in output
    assert "compare" in output


@pytest.mark.parametrize("code", ["import pydantic", "try:\n    import pydantic.fields\nexcept ImportError:\n    pass"])
def test_an_attempt_to_load_a_forbidden_package_is_seen_even_where_the_failure_is_swallowed(code: str) -> None:
    assert _attempts(code, SLOW)[0].startswith("pydantic")


def _attempts(code: str, names: tuple[str, ...]) -> list[str]:
    return _parse(_run(code, names))


def _parse(output: str) -> list[str]:
    attempts: list[str] = json.loads(output.rpartition("ATTEMPTS ")[2].splitlines()[0])
    return attempts


def _run(code: str, names: tuple[str, ...]) -> str:
    indented = "\n".join(f"    {line}" for line in code.strip().splitlines())
    program = PRELUDE.format(names=names, root=str(ROOT), code=indented)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT).stdout
