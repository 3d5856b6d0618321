"""A target simulated inside a process. What needs a real vLLM runs pytest, with the plugin, in a process
of its own, twice in all."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from harness.model.errors import UsageError
from harness.targets.facts import TARGETS
from harness.targets.inprocess import InProcessError, find_target, simulated

FRESH = '''
import importlib.util
import os
import sys

import pytest
import torch
import triton

KERNELS = "vllm.model_executor.kernels.linear.scaled_mm.pytorch"


def snapshot():
    """All that a simulated target touches."""
    return {
        "modules": {name for name in sys.modules
                    if name.split(".")[0] in ("vllm", "amdsmi", "aiter", "quark", "pynvml")},
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "finders": list(sys.meta_path),
        "path": list(sys.path),
        "find_spec": importlib.util.find_spec,
        "versions": (torch.version.hip, torch.version.cuda),
        "devices": {(home.__name__, name): getattr(home, name) for home in (torch.cuda, torch.xpu, torch.cpu)
                    for name in ("is_available", "device_count", "get_device_properties", "get_device_capability",
                                 "_is_avx512_supported", "_init_amx") if hasattr(home, name)},
        "threads": torch.get_num_threads,
        "triton": vars(triton.runtime.driver).get("_active"),
        "namespace": torch._ops._OpNamespace.__getattr__,
        "library": torch.library.Library.__init__,
        "operators": {(space, name) for space in ("_C", "_rocm_C", "_moe_C") for name in ("wvSplitK", "topk_softmax",
                      "cutlass_scaled_mm_supports_fp8") if hasattr(getattr(torch.ops, space), name)},
    }


BEFORE = snapshot()


@pytest.fixture(autouse=True)
def unchanged(request):
    assert request.node.get_closest_marker("gfx") is not None or snapshot() == BEFORE


@pytest.mark.gfx("gfx942")
def test_mark_makes_the_target_active():
    from vllm.platforms import current_platform
    from vllm.platforms.rocm import on_gfx942, on_gfx950

    assert (on_gfx942(), on_gfx950()) == (True, False)
    assert current_platform.is_rocm()
    assert tuple(current_platform.get_device_capability()) == (9, 4)
    assert current_platform.fp8_dtype() == torch.float8_e4m3fnuz
    assert hasattr(torch.ops._rocm_C, "wvSplitK")
    assert snapshot() != BEFORE


@pytest.mark.parametrize("name, accepts", [("gfx1100", False), ("sm90", True), ("cpu", True), ("xpu", True),
                                           ("gfx950", True), ("gfx942/MI308X", True)])
def test_one_target_after_the_other(simulated_target, name, accepts):
    target = simulated_target(name)
    from vllm.platforms import current_platform

    kernel = importlib.import_module(KERNELS).TorchFP8ScaledMMLinearKernel
    assert getattr(current_platform, f"is_{target.platform}")()
    assert kernel.is_supported()[0] is accepts
    if target.platform != "rocm":
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("vllm.platforms.rocm")
    assert simulated_target(name) is target


def test_another_target_in_the_same_test_is_refused(simulated_target):
    simulated_target("gfx942")
    with pytest.raises(Exception, match="a target is simulated already .got 'gfx942/MI300X'"):
        simulated_target("gfx950")


@pytest.mark.gfx("gfx942")
def test_device_code_is_an_error_and_a_warning():
    import quark

    with pytest.raises(RuntimeError, match="quark.kernel: device code"):
        quark.kernel()


def test_vllm_itself_can_be_imported_afterwards():
    from vllm.platforms import current_platform

    assert "vllm_ir" in dir(torch.ops) and not current_platform.is_rocm()
    assert importlib.import_module(KERNELS).TorchFP8ScaledMMLinearKernel.is_supported()[0] is False
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        del sys.modules[name]
    os.environ.clear()
    os.environ.update(BEFORE["environment"])
'''

LOADED = """
import importlib
import sys

import pytest
import torch
from helper import rms_norm, supported
from vllm.model_executor.kernels.linear.scaled_mm.pytorch import TorchFP8ScaledMMLinearKernel as Kernel
from vllm.platforms import current_platform


def state():
    modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "vllm"}
    return (Kernel, current_platform, dict(vars(current_platform)), type(current_platform), modules)


@pytest.fixture(scope="module", autouse=True)
def before():
    importlib.import_module("vllm.ir.ops")
    return state()


@pytest.mark.gfx("gfx942")
def test_names_bound_before_answer_as_the_target(before):
    assert current_platform.fp8_dtype() == torch.float8_e4m3fnuz
    assert Kernel.is_supported() == supported() == (True, None)
    assert current_platform is not before[1]


@pytest.mark.gfx("gfx1100")
def test_and_as_another():
    assert Kernel.is_supported()[0] is supported()[0] is False


def test_everything_is_as_before(before):
    assert state() == before
    x = torch.randn(2, 4)
    torch.testing.assert_close(rms_norm(x), torch.nn.functional.rms_norm(x, (4,), eps=1e-6))
"""

HELPER = """
import torch
from vllm.model_executor.kernels.linear.scaled_mm.pytorch import TorchFP8ScaledMMLinearKernel

def supported():
    return TorchFP8ScaledMMLinearKernel.is_supported()

def rms_norm(x):
    return torch.ops.vllm_ir.rms_norm(x, torch.ones(4), 1e-6)
"""

BAKED = """
import pytest
from vllm.platforms import current_platform

DTYPE = current_platform.fp8_dtype()

@pytest.mark.gfx("gfx942")
def test_never_runs():
    assert False
"""


def run_pytest(folder: Path, tree: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in {"conftest.py": "", "pytest.ini": "[pytest]", **files}.items():
        (folder / name).write_text(text, encoding="utf-8")
    repository = Path(find_target.__code__.co_filename).parents[2]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "PYTEST_"))}
    environment = {**kept, "PYTHONPATH": f"{repository}{os.pathsep}{tree}", "VLLM_LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)


@pytest.mark.slow
def test_targets_one_after_the_other_and_everything_taken_back(vllm_tree: Path, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, vllm_tree, {"test_fresh.py": FRESH})
    assert "10 passed" in done.stdout, done.stdout + done.stderr
    assert "SimulationLimitWarning: the simulated gfx942/MI300X could not know: what quark.kernel does" in done.stdout


@pytest.mark.slow
def test_vllm_imported_before_is_set_aside_or_refused(vllm_tree: Path, tmp_path: Path) -> None:
    files = {"helper.py": HELPER, "test_loaded.py": LOADED, "test_baked.py": BAKED}
    done = run_pytest(tmp_path, vllm_tree, files)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert "1 error" in done.stdout
    assert "test_baked.py:5 (current_platform)" in done.stdout


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("gfx942", "gfx942/MI300X"),
        ("gfx942/MI308X", "gfx942/MI308X"),
        ("sm90", "sm90/H100"),
        ("xpu", "xpu"),
        ("cpu", "cpu"),
    ],
)
def test_a_bare_name_is_its_usual_product(name: str, full: str) -> None:
    assert find_target(name) is TARGETS[full]


@pytest.mark.parametrize(("name", "meant"), [("gfx924", "gfx942"), ("sm09", "sm90"), ("gfx942/MI308", "gfx942/MI308X")])
def test_an_unknown_name_names_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"no such target \(got '{name}'\).*{meant}"):
        find_target(name)


def test_without_vllm_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InProcessError, match="vLLM cannot be imported"), simulated(find_target("gfx942")):
        pass


@pytest.fixture
def stub_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package ``vllm`` with a platform, loaded."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("", encoding="utf-8")
    platform = "class Platform:\n    def is_rocm(self): return False\n\ncurrent_platform = Platform()\n"
    (tmp_path / "vllm" / "platforms.py").write_text(platform, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("vllm", "vllm.platforms"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        module = importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, module)
    return tmp_path


def loaded(folder: Path, name: str, text: str) -> types.ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_values_computed_before_are_refused_by_place(stub_vllm: Path) -> None:
    lines = ["from vllm.platforms import current_platform", *(f"V{n} = current_platform.is_rocm()" for n in range(7))]
    test = loaded(stub_vllm, "computes", "\n".join(lines))
    with pytest.raises(InProcessError) as caught, simulated(find_target("gfx942"), test):
        pass
    message = str(caught.value)
    assert "computes.py:2 (current_platform)" in message
    assert "computes.py:6 (current_platform) and 2 more" in message
    assert "Import vLLM inside the test" in message
    assert not test.current_platform.is_rocm()


def test_loaded_compiled_modules_of_vllm_are_refused(stub_vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = types.ModuleType("vllm._C")
    loader = importlib.machinery.ExtensionFileLoader("vllm._C", str(stub_vllm / "vllm" / "_C.so"))
    compiled.__spec__ = importlib.machinery.ModuleSpec("vllm._C", loader)
    monkeypatch.setitem(sys.modules, "vllm._C", compiled)
    with pytest.raises(InProcessError, match=r"compiled modules of vLLM are loaded \(got 'vllm._C'\)"):
        simulated(find_target("gfx942")).__enter__()
