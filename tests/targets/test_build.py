from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from harness.subjects import Located
from harness.targets.build import NATIVE_MODULES, DeclaredBuild, built_for, declared_build, macros_of, register
from harness.targets.facts import TARGETS
from harness.targets.journal import Journal, SimulationLimit

SPACE = "gfxloop_test"
QUERY = "gfxloop_test_query"


def _operators(tree: Path, target: str) -> set[str]:
    return {f"{space}::{schema.partition('(')[0]}" for space, schema in declared_build(tree, TARGETS[target]).schemas}


# ---- the declared build of a small tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "torch_bindings.cpp": 'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.def("both() -> ()");\n'
        '#ifndef USE_ROCM\nm.def("cuda_only() -> ()");\n#endif\n}',
        "rocm/torch_bindings.cpp": 'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.def("rocm_only() -> ()"); }',
        "moe/torch_bindings.cpp": 'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.def("moe() -> ()"); }',
        "cpu/torch_bindings.cpp": 'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.def("cpu_only() -> ()"); }',
    }
    for name, text in files.items():
        path = tmp_path / "csrc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_each_platform_builds_its_own_folders(tree: Path) -> None:
    assert _operators(tree, "gfx942/MI300X") == {"_C::both", "_rocm_C::rocm_only", "_moe_C::moe"}
    assert _operators(tree, "sm90/H100") == {"_C::both", "_C::cuda_only", "_moe_C::moe"}
    assert _operators(tree, "cpu") == {"_C::cpu_only"}


@pytest.mark.parametrize("target", ["xpu", "none"])
def test_a_platform_without_a_compiled_module_has_a_known_empty_build(tree: Path, target: str) -> None:
    assert declared_build(tree, TARGETS[target]) == DeclaredBuild()
    assert NATIVE_MODULES[TARGETS[target].platform] == ()


def test_a_tree_without_csrc_has_the_operators_of_the_table_and_says_so(tmp_path: Path) -> None:
    build = declared_build(tmp_path, TARGETS["gfx1250"])
    assert "_rocm_C::paged_attention" in _operators(tmp_path, "gfx1250")
    assert "_rocm_C::wvSplitK" not in _operators(tmp_path, "gfx1250")
    assert build.source == f"operators.tsv: csrc of vLLM {build.release}; the subject has none"


def test_a_rocm_build_serves_the_targets_that_cmake_names(tmp_path: Path) -> None:
    assert built_for(tmp_path) is None
    (tmp_path / "CMakeLists.txt").write_text("project(vllm)\n")
    assert built_for(tmp_path) is None
    (tmp_path / "CMakeLists.txt").write_text(
        '# set(HIP_SUPPORTED_ARCHS "gfx906")\nset(HIP_SUPPORTED_ARCHS "gfx90a;gfx942")\n'
    )
    assert built_for(tmp_path) == {"gfx90a", "gfx942"}


def test_operators_of_a_tree_of_its_own_need_no_source(tree: Path) -> None:
    assert declared_build(tree, TARGETS["gfx942/MI300X"]).source == ""


def test_a_file_that_registers_without_being_named_bindings_counts(tree: Path) -> None:
    (tree / "csrc" / "ops.cpp").write_text('STABLE_TORCH_LIBRARY_FRAGMENT(_C_x, m) { m.def("gather() -> ()"); }')
    (tree / "csrc" / "quant.cu").write_text('STABLE_TORCH_LIBRARY_FRAGMENT(_C, m) { m.def("fp4() -> ()"); }')
    (tree / "csrc" / "notes.md").write_text('TORCH_LIBRARY(_C, m) { m.def("never() -> ()"); }')
    assert {"_C_x::gather"} == _operators(tree, "gfx942/MI300X") - {"_C::both", "_rocm_C::rocm_only", "_moe_C::moe"}
    assert {"_C_x::gather", "_C::fp4"} < _operators(tree, "sm90/H100")


# ---- the declared build of a real release


@pytest.fixture(scope="module")
def real(vllm_tree: Path) -> dict[str, set[str]]:
    return {name: _operators(vllm_tree, name) for name in TARGETS}


def test_a_rocm_build_has_what_use_rocm_adds_and_lacks_what_it_takes_away(real: dict[str, set[str]]) -> None:
    rocm, cuda = real["gfx942/MI300X"], real["sm90/H100"]
    assert {"_rocm_C::wvSplitKQ", "_rocm_C::paged_attention", "_C_custom_ar::qr_all_reduce"} <= rocm - cuda
    assert {"_C::cutlass_scaled_mm", "_moe_C::fused_globalize_align_block_size"} <= cuda - rocm
    assert {"_C::rms_norm", "_C_cache_ops::reshape_and_cache", "_moe_C::topk_softmax"} <= rocm & cuda


def test_only_a_gfx1100_build_has_the_rdna3_kernels(real: dict[str, set[str]]) -> None:
    for name, operators in real.items():
        assert ("_rocm_C::gptq_gemm_rdna3" in operators) == name.startswith("gfx1100")


def test_the_kda_kernels_are_built_for_the_targets_that_cmake_names(real: dict[str, set[str]]) -> None:
    decode = {name.partition("/")[0] for name, operators in real.items() if "_C::fused_kda_decode" in operators}
    chunk = {name.partition("/")[0] for name, operators in real.items() if "_C::fused_kda_chunk" in operators}
    assert decode == {"gfx942", "gfx950", "sm80", "sm89", "sm90", "sm100"}
    assert chunk <= {"gfx950"}


def test_a_gfx1250_build_has_no_skinny_gemm(real: dict[str, set[str]]) -> None:
    skinny = {"_rocm_C::LLMM1", "_rocm_C::wvSplitK", "_rocm_C::wvSplitKQ"}
    assert not skinny & real["gfx1250"]
    assert "_rocm_C::paged_attention" in real["gfx1250"]
    for name in ("gfx90a/MI210", "gfx950/MI350X", "gfx1201/RX9070XT"):
        assert skinny <= real[name]


def test_octave_is_built_for_two_gfx_targets_alone(real: dict[str, set[str]]) -> None:
    has = {name for name, operators in real.items() if "_C::octave_decode" in operators}
    assert has == {"gfx942/MI300X", "gfx942/MI308X", "gfx1100/RX7900XTX"}


def test_every_definition_of_the_release_is_in_some_build(vllm_tree: Path, real: dict[str, set[str]]) -> None:
    declared = {name.partition("::")[2] for operators in real.values() for name in operators}
    files = [path for path in (vllm_tree / "csrc").rglob("*") if path.suffix in (".cpp", ".cu")]
    defined = {name for path in files for name in re.findall(r'\.def\(\s*"(\w+)', path.read_text())}
    on_arm_or_power = {"activation_lut_bf16", "cpu_fused_moe_int8", "prepack_moe_weight_int8"}
    assert defined - declared == on_arm_or_power


OTHER_MACHINES = {
    "__aarch64__", "__APPLE__", "ARM_BF16_SUPPORT", "ARM_I8MM_SUPPORT", "__AVX2__", "__riscv", "__riscv_v", "__s390x__",
    "__powerpc__", "__powerpc64__",
}  # fmt: skip


@pytest.mark.parametrize("version", ["0.28.0", "0.33.0"])
def test_every_macro_that_the_bindings_ask_for_is_thought_of(located: Callable[..., Located], version: str) -> None:
    files = (located(version).tree / "csrc").rglob("*bindings.cpp")
    text = re.sub(r"\\\n", " ", "\n".join(path.read_text() for path in files))
    conditions = re.findall(r"^[ \t]*#[ \t]*(?:ifdef|ifndef|if|elif)\b(.*?)(?://.*)?$", text, re.MULTILINE)
    asked = {name for condition in conditions for name in re.findall(r"[A-Za-z_]\w+", condition)} - {"defined"}
    unknown = asked - set(macros_of(TARGETS["cpu"])) - OTHER_MACHINES
    assert {name for name in unknown if not name.startswith("VLLM_ENABLE_")} == set()


# ---- registration


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def registered(journal: Journal) -> Iterator[list[object]]:
    schemas = ("gemm(Tensor a, int n) -> Tensor", "init(int n) -> int", "bare", "odd(Nonsense? x) -> !")
    build = DeclaredBuild((*((SPACE, schema) for schema in schemas), ("_C", f"{QUERY}(int capability) -> bool")))
    libraries = register(build, {QUERY: lambda capability: capability >= 89}, journal)
    yield libraries
    for library in libraries:
        library._destroy()


def test_a_declared_operator_exists_under_its_name(registered: list[object]) -> None:
    for name in ("gemm", "init", "bare", "odd"):
        assert hasattr(getattr(torch.ops, SPACE), name)
    assert not hasattr(getattr(torch.ops, SPACE), "not_declared")


def test_a_call_of_a_declared_operator_is_an_error_that_names_it_and_is_noted(
    registered: list[object], journal: Journal
) -> None:
    operators = getattr(torch.ops, SPACE)
    with pytest.raises(SimulationLimit, match=f"operator {SPACE}::gemm: device code"):
        operators.gemm(torch.zeros(1), 2)
    with pytest.raises(SimulationLimit, match=f"operator {SPACE}::init"):
        operators.init(1)
    with pytest.raises(SimulationLimit, match=f"operator {SPACE}::bare"):
        operators.bare()
    assert journal.unanswerable == [f"what operator {SPACE}::{name} does" for name in ("gemm", "init", "bare")]


def test_a_query_of_the_device_is_answered(registered: list[object], journal: Journal) -> None:
    query = getattr(torch.ops._C, QUERY)
    assert (query(80), query(90)) == (False, True)
    assert journal == Journal()


def test_a_question_for_an_operator_is_no_note(registered: list[object], journal: Journal) -> None:
    assert not hasattr(getattr(torch.ops, SPACE), "nothing")
    assert journal == Journal()
