from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.model.cell import Cell
from harness.model.record import Observation
from harness.targets.facts import TARGETS
from harness.targets.pool import WorkerPool
from harness.targets.simulated import FIXED_ENV, View, install, worker_environment
from harness.targets.worker import Job

MI300X = "gfx942/MI300X"


# ---- the environment of a worker


DECIDING = """
    VLLM_ROCM_USE_AITER AITER_JIT_DIR HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES TRITON_INTERPRET
    GPU_ARCHS CU_NUM FLASH_ATTENTION_TRITON_AMD_ENABLE TORCHINDUCTOR_CACHE_DIR
"""


@pytest.mark.parametrize("name", DECIDING.split())
def test_what_decides_routing_on_this_machine_never_reaches_a_worker(tmp_path: Path, name: str) -> None:
    machine = {name: "1", "HOME": "/home/x", "PATH": "/bin"}
    environment = worker_environment(machine, TARGETS[MI300X], {}, tmp_path)
    assert name not in environment
    assert (environment["HOME"], environment["PATH"]) == ("/home/x", "/bin")


def test_the_cell_s_own_variables_win(tmp_path: Path) -> None:
    own = {"VLLM_ROCM_USE_AITER": "1", "VLLM_LOGGING_LEVEL": "DEBUG"}
    environment = worker_environment({"VLLM_ROCM_USE_AITER": "0"}, TARGETS[MI300X], own, tmp_path)
    assert environment == {**FIXED_ENV, **own, "VLLM_CACHE_ROOT": str(tmp_path / "vllm")}


def test_only_a_cpu_worker_is_told_its_device(tmp_path: Path) -> None:
    told = {
        name: "VLLM_TARGET_DEVICE" in worker_environment({}, target, {}, tmp_path) for name, target in TARGETS.items()
    }
    assert [name for name, is_told in told.items() if is_told] == ["cpu"]


# ---- an installed simulation, asked inside a worker


@pytest.fixture
def ask(make_cell: Callable[..., Cell], scripted: str, tiny_tree: Path) -> Callable[..., list[str]]:
    """``ask("gfx942/MI300X", "expression", ...)``: the values in a worker that looks like the target."""

    def answers(
        target: str,
        *expressions: str,
        tree: Path = tiny_tree,
        aiter: str = "none",
        aiter_path: Path | None = None,
        packages: Mapping[str, bool] | None = None,
    ) -> list[str]:
        cells = [make_cell(f"ask{i}", target=target, scheme={"do": f"answer = {e}"}) for i, e in enumerate(expressions)]
        view = View(tree, "9.9.9", aiter, aiter_path, {"VLLM_X": "1"}, packages or {})  # type: ignore[arg-type]
        seen: list[Observation] = []
        with WorkerPool(1) as pool:
            pool.run([Job(TARGETS[target], view, tuple(cells), scripted)], lambda _j, _c, one: seen.append(one))
        assert [one.detail for one in seen] == [""] * len(seen)
        return [str(one.chosen) for one in seen]

    return answers


Ask = Callable[..., list[str]]
IMPORT = "__import__('importlib').import_module"
FOUND = "__import__('importlib.util').util.find_spec"


def test_a_rocm_worker_looks_like_the_target_at_every_driver(ask: Ask) -> None:
    assert ask(
        MI300X,
        f"{IMPORT}('torch').version.hip",
        f"{IMPORT}('torch').cuda.get_device_properties(0).gcnArchName",
        f"{IMPORT}('amdsmi').amdsmi_get_gpu_asic_info(None)['num_compute_units']",
        f"{IMPORT}('importlib.metadata').version('vllm')",
        "os.environ['VLLM_X']",
        "sys.path[0] == str(simulation.view.tree)",
        f"{IMPORT}('vllm._rocm_C').__name__",
    ) == ["7.0", "gfx942:sramecc+:xnack-", "304", "9.9.9", "1", "True", "vllm._rocm_C"]


def test_a_platform_lacks_the_modules_of_the_others(ask: Ask) -> None:
    probes = [f"{FOUND}({name!r}) is not None" for name in ("amdsmi", "pynvml", "quark", "flashinfer", "aiter")]
    assert ask(MI300X, *probes) == ["True", "False", "True", "False", "False"]
    assert ask("sm90/H100", *probes[:1], *probes[2:]) == ["False", "False", "True", "False"]
    assert ask("cpu", *probes) == ["False"] * 5


def test_words_of_packages_override_what_the_platform_has(ask: Ask) -> None:
    probes = [f"{FOUND}({name!r}) is not None" for name in ("flash_attn", "quark")]
    assert ask(MI300X, *probes, packages={"flash_attn": True, "quark": False}) == ["True", "False"]


@pytest.mark.parametrize(("aiter", "found"), [("none", "False"), ("stand-in", "True"), ("tables", "True")])
def test_aiter_is_what_the_subject_says(ask: Ask, tmp_path: Path, aiter: str, found: str) -> None:
    folder = tmp_path if aiter == "tables" else None
    questions = (f"{FOUND}('aiter') is not None", "simulation.stand_in is not None", "simulation.tables")
    seen, stand_in, tables = ask(MI300X, *questions, aiter=aiter, aiter_path=folder)
    assert (seen, stand_in, tables) == (found, found, str(folder))


def test_aiter_is_never_there_outside_rocm(ask: Ask) -> None:
    assert ask("sm90/H100", f"{FOUND}('aiter') is None", "simulation.stand_in", aiter="stand-in") == ["True", "None"]


def test_the_declared_operators_of_the_tree_are_registered(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "torch_bindings.cpp").write_text('TORCH_LIBRARY(_C, m) { m.def("gemm(Tensor a) -> ()"); }')
    operator = f"hasattr({IMPORT}('torch').ops._C, 'gemm')"
    assert ask(MI300X, operator, tree=tmp_path) == ["True"]
    assert ask(MI300X, operator, "simulation.operators_from", tree=tmp_path) == ["True", ""]


def test_a_tree_without_csrc_has_the_operators_of_a_table(ask: Ask) -> None:
    operators = [f"hasattr({IMPORT}('torch').ops._rocm_C, {name!r})" for name in ("wvSplitK", "gemm")]
    *found, source = ask(MI300X, *operators, "simulation.operators_from")
    assert found == ["True", "False"]
    assert "operators.tsv" in source


def test_nothing_of_this_machine_that_decides_is_left(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("VLLM_ROCM_USE_AITER", "1")
    (names,) = ask(MI300X, "sorted(n for n in os.environ if n.startswith(('VLLM_', 'HIP_')))")
    assert ast.literal_eval(names) == [
        "VLLM_CACHE_ROOT",
        "VLLM_LOGGING_LEVEL",
        "VLLM_NO_USAGE_STATS",
        "VLLM_PLUGINS",
        "VLLM_X",
    ]


def test_a_process_that_has_imported_vllm_cannot_be_simulated(
    monkeypatch: pytest.MonkeyPatch, tiny_tree: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", sys)
    with pytest.raises(RuntimeError, match="before vllm is imported"):
        install(TARGETS["cpu"], View(tiny_tree, "0", "none", None, {}), tmp_path)
