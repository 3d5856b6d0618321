"""The subject's own tests as cells: through the command line, on a small subject and on the real one."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Done = subprocess.CompletedProcess[str]

OWN_TESTS = """
import os
import subprocess
import sys
import pytest
import torch
import vllm

def test_passes(): assert torch.version.hip
@pytest.mark.parametrize("n", [1, 2])
def test_half(n): assert n == 1, "two is wrong"
def test_device(): torch.empty(1, device="cuda")
def test_operator(): torch.ops._C.rms_norm(*[torch.ones(1, 1)] * 3, 0.1)
def test_needs_package(): import no_such_package_anywhere
def test_downloads(): raise OSError("We couldn't connect to 'https://huggingface.co' to load the files")
@pytest.mark.skipif(True, reason="gfx115x only")
def test_left_out(): pass
@pytest.mark.skip(reason="flash_attn is not installed")
def test_lacks(): pass
@pytest.mark.xfail
def test_xfails(): assert False
def test_dies(): os.abort()
def test_after(): pass
def test_own_process(): subprocess.run([sys.executable, '-c', ''], check=True)
@pytest.mark.skip(reason='CudaPlatform not available')
def test_other_platform(): pass
"""

OUTCOMES = {
    "test_passes": ("passed", ""),
    "test_half[1]": ("passed", ""),
    "test_half[2]": ("failed", "two is wrong"),
    "test_device": ("indeterminate", "what the device does"),
    "test_operator": ("indeterminate", "operator _C::rms_norm"),
    "test_needs_package": ("indeterminate", "no_such_package_anywhere"),
    "test_downloads": ("indeterminate", "what https://huggingface.co gives"),
    "test_left_out": ("unsupported", "the test leaves this target out: gfx115x only"),
    "test_lacks": ("indeterminate", "the simulation cannot serve it: flash_attn is not installed"),
    "test_xfails": ("passed", "xfailed"),
    "test_dies": ("crashed", "SIGABRT"),
    "test_after": ("passed", ""),
    "test_own_process": ("indeterminate", "a Python process"),
    "test_other_platform": ("unsupported", "the test leaves this target out"),
}

BINDINGS = """
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("rms_norm(Tensor! result, Tensor input, Tensor weight, float epsilon) -> ()");
}
"""


@pytest.fixture
def subject(tmp_path: Path) -> Path:
    """A subject with tests of its own."""
    tree = tmp_path / "subject"
    files = {
        "vllm/__init__.py": "",
        "vllm/_version.py": "__version__ = '0.0.1'\n",
        "csrc/torch_bindings.cpp": BINDINGS,
        "pyproject.toml": "[project]\nname = 'vllm'\nversion = '0.0.1'\n[tool.pytest.ini_options]\n",
        "tests/__init__.py": "",
        "tests/test_own.py": OWN_TESTS,
        "tests/test_module_skip.py": "import pytest\npytest.skip('ROCm only', allow_module_level=True)\n",
        "tests/test_broken.py": "raise KeyError('at import')\n",
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tree


@pytest.fixture
def upstream(gfxloop: Callable[..., Done]) -> Callable[..., Done]:
    """``upstream("path:...", "--upstream", FILE)``, as JSON."""
    return lambda subject, *words: gfxloop("run", *words, "--subject", subject, "--json")


def records(done: Done) -> dict[str, dict[str, Any]]:
    assert done.stdout, done.stderr
    return {record["kernel"].rpartition("::")[2]: record for record in json.loads(done.stdout)["records"]}


def test_each_test_becomes_a_cell_with_its_own_end(upstream: Callable[..., Done], subject: Path) -> None:
    done = upstream(f"path:{subject}", "--upstream", "tests/test_own.py", "--target", "gfx1100")
    found = records(done)
    assert {name: record["outcome"] for name, record in found.items()} == {k: v[0] for k, v in OUTCOMES.items()}
    for name, (_, words) in OUTCOMES.items():
        assert words in found[name]["reason"], name
    assert done.returncode == 1
    again = [*shlex.split(found["test_half[2]"]["reproduce"])[2:4], "--target", "gfx1100"]
    alone = records(upstream(f"path:{subject}", *again, "--out", "again"))
    assert {name: record["outcome"] for name, record in alone.items()} == {"test_half[2]": "failed"}


@pytest.mark.parametrize(
    ("file", "outcome", "words"),
    [
        ("tests/test_module_skip.py", "unsupported", "the test leaves this target out: ROCm only"),
        ("tests/test_broken.py", "failed", "KeyError"),
    ],
)
def test_a_file_without_tests_is_one_cell(
    upstream: Callable[..., Done], subject: Path, file: str, outcome: str, words: str
) -> None:
    done = upstream(f"path:{subject}", "--upstream", file, "--target", "sm90")
    (record,) = records(done).values()
    assert record["outcome"] == outcome
    assert words in record["reason"]


def test_a_conftest_that_cannot_be_loaded_is_told_in_its_own_words(
    upstream: Callable[..., Done], subject: Path
) -> None:
    (subject / "tests" / "conftest.py").write_text("import not_there\n")
    done = upstream(f"path:{subject}", "--upstream", "tests/test_own.py", "--target", "cpu")
    (record,) = records(done).values()
    assert record["outcome"] == "indeterminate"
    assert "No module named 'not_there'" in record["reason"]
    assert done.returncode == 4


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--upstream", "tests/no_such.py", "--target", "cpu"], 2, "no such test file in the subject"),
        (["--upstream", "../outside.py", "--target", "cpu"], 2, "no such test file in the subject"),
        (["--upstream", "tests/test_own.py", "--target", "gfx999"], 2, "gfx999"),
    ],
)
def test_wrong_words_are_told(
    upstream: Callable[..., Done], subject: Path, words: list[str], status: int, told: str
) -> None:
    done = upstream(f"path:{subject}", *words)
    assert done.returncode == status
    assert told in done.stderr


def test_a_subject_without_tests_cannot_serve(upstream: Callable[..., Done], tiny_tree: Path) -> None:
    done = upstream(f"path:{tiny_tree}", "--upstream", "tests/x.py", "--target", "cpu")
    assert done.returncode == 4
    assert "has no tests/" in done.stderr


@pytest.mark.slow
def test_real_vllm_s_kernel_selection_tests_pass_on_gfx1100(upstream: Callable[..., Done]) -> None:
    file = "tests/kernels/quantization/test_rdna3_w4a16_selection.py"
    found = records(upstream("pypi:0.33.0", "--upstream", file, "--target", "gfx1100"))
    assert len(found) >= 7
    assert {record["outcome"] for record in found.values()} == {"passed"}
