from __future__ import annotations

import enum
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model.cell import Cell
from harness.model.record import Observation
from harness.targets.aiter_tree import enumerations, install_aiter_tree
from harness.targets.facts import TARGETS
from harness.targets.pool import WorkerPool
from harness.targets.simulated import View
from harness.targets.worker import Job

HEADER = """\
enum class ActivationType : int
{
    No = -1,
    Silu = 0,
    Gelu,   // one more
    // Never = 7,
    Swiglu,
};
enum class QuantType : int { No, per_Tensor, };
enum class Other : uint8_t { A };
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small AITER that finds its target and its enumerations as the real one does."""
    files = {
        "csrc/include/aiter_enum.h": HEADER,
        "aiter/__init__.py": "import os, subprocess\n"
        "from module_aiter_core import ActivationType\nfrom torch_guard import torch_compile_guard\n"
        "GFX = subprocess.run('rocminfo', capture_output=True, text=True).stdout.split('Name:')[1].split()[0]\n"
        "DEVICE = torch_compile_guard(device='cuda')\n",
        "aiter/jit/__init__.py": "",
        "aiter/jit/utils/torch_guard.py": "def torch_compile_guard(device='cuda'): return device\n",
    }
    for name, text in files.items():
        path = tmp_path / "aiter_tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "aiter_tree"


def test_enumerations_are_read_from_aiter_s_header(tree: Path) -> None:
    found = enumerations(tree)
    assert {name: {member.name: member.value for member in kind} for name, kind in found.items()} == {
        "ActivationType": {"No": -1, "Silu": 0, "Gelu": 1, "Swiglu": 2},
        "QuantType": {"No": 0, "per_Tensor": 1},
    }
    assert issubclass(found["QuantType"], enum.IntEnum)
    assert "per_Tensor" in (found["QuantType"].__doc__ or "")


def test_a_tree_without_the_header_has_no_enumeration(tmp_path: Path) -> None:
    assert enumerations(tmp_path) == {}


def test_the_tools_that_aiter_runs_answer_for_the_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from harness.targets.aiter_tree import _write_tools

    tools = _write_tools(TARGETS["gfx942/MI308X"], tmp_path / "rocm")

    def said(*words: str) -> str:
        return subprocess.run([str(tools / words[0]), *words[1:]], capture_output=True, text=True, check=True).stdout

    assert "Name:                    gfx942" in said("rocminfo")
    assert "Compute Unit:            80" in said("rocminfo")
    assert said("hipconfig", "--version").startswith("7.0.")
    assert said("hipconfig") == "7.0.0\n"


ASK = (
    "import aiter; answer = (aiter.GFX, aiter.ActivationType.Gelu.value, aiter.DEVICE, os.environ['GPU_ARCHS'],"
    " os.environ['CU_NUM'], os.path.dirname(aiter.__file__))"
)


@pytest.mark.parametrize(
    ("target", "gfx", "cu"), [("gfx942/MI308X", "gfx942", "80"), ("gfx1100/RX7900XTX", "gfx1100", "96")]
)
def test_a_real_tree_imports_in_a_worker_and_sees_the_target(
    make_cell: Callable[..., Cell], tiny_tree: Path, tree: Path, scripted: str, target: str, gfx: str, cu: str
) -> None:
    seen: list[Observation] = []
    cell = make_cell(target=target, scheme={"do": ASK})
    job = Job(TARGETS[target], View(tiny_tree, "0", "path", tree, {}), (cell,), scripted)
    with WorkerPool(1) as pool:
        pool.run([job], lambda _job, _cell, one: seen.append(one))
    assert seen[0].chosen == str((gfx, 1, "cpu", gfx, cu, str(tree / "aiter"))), seen[0].detail


def test_an_aiter_that_registers_without_the_guard_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import os
    import sys

    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(sys, "modules", sys.modules.copy())
        patch.setattr(os, "environ", os.environ.copy())
        install_aiter_tree(TARGETS["gfx950/MI350X"], tmp_path, tmp_path / "scratch")
        assert sys.path[0] == str(tmp_path)
        assert os.environ["GPU_ARCHS"] == "gfx950"
        assert (tmp_path / "scratch" / "jit").is_dir()
