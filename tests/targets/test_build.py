from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch._ops
from hypothesis import given
from hypothesis import strategies as st

from harness.subjects import Located
from harness.targets.build import (
    NATIVE_MODULES,
    DeclaredBuild,
    _holds,
    _preprocess,
    declared_build,
    definitions,
    macros_of,
    register,
)
from harness.targets.facts import TARGETS
from harness.targets.journal import Journal, SimulationLimit

MACROS = {"USE_ROCM": True, "OFF": False}
SPACE = "gfxloop_test"
QUERY = "gfxloop_test_query"


def _operators(tree: Path, target: str) -> set[str]:
    return {f"{space}::{schema.partition('(')[0]}" for space, schema in declared_build(tree, TARGETS[target]).schemas}


# ---- the preprocessor


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("USE_ROCM", True),
        ("!USE_ROCM", False),
        ("defined(USE_ROCM) && !defined(OFF)", True),
        ("defined USE_ROCM || defined OFF", True),
        ("defined(OFF) || (defined(USE_ROCM) && defined(NEVER_HEARD_OF))", False),
        ("VLLM_ENABLE_SOMETHING", False),
        ("defined(USE_ROCM) /* why */ // and why not", True),
        ("CUDA_VERSION >= 12080", False),
        ("", False),
    ],
)
def test_a_condition_has_its_value_and_an_unknown_word_is_false(condition: str, holds: bool) -> None:
    assert _holds(condition, MACROS) is holds


def test_kernels_switched_on_by_toolkit_version_are_in_a_cuda_build() -> None:
    assert _holds("VLLM_ENABLE_SOMETHING && ENABLE_NVFP4", {"USE_ROCM": False})


def test_every_kind_of_conditional_keeps_the_branch_a_compiler_keeps() -> None:
    text = """\
#ifdef USE_ROCM
rocm
#else
not rocm
#endif  // USE_ROCM
#ifndef USE_ROCM
cuda
#elif defined(OFF)
off
#elif defined(USE_ROCM) && \\
    !defined(OFF)
second
#else
none
#endif
#define USE_ROCM 0
#include "ops.h"
always"""
    kept = _preprocess(text, MACROS).split("\n")
    assert kept == ["rocm", "second", "#define USE_ROCM 0", '#include "ops.h"', "always"]


def test_only_the_first_branch_that_holds_is_kept() -> None:
    assert _preprocess("#if USE_ROCM\na\n#elif USE_ROCM\nb\n#else\nc\n#endif", MACROS) == "a"


@pytest.mark.parametrize("text", ["#endif\nkept", "#if OFF\n#endif\n#endif\nkept"])
def test_an_endif_too_many_is_no_crash(text: str) -> None:
    assert _preprocess(text, MACROS) == "kept"


NAMES = ("A", "B", "C")


Lines = list[tuple[str, list[str] | None]]
"""Text by line, with the conditions under which a compiler keeps it; None for a directive."""


@st.composite
def _conditionals(draw: st.DrawFn, depth: int = 3) -> Lines:
    """Balanced conditionals, nested up to ``depth``."""
    out: Lines = []
    for _ in range(draw(st.integers(1, 3))):
        if depth == 0 or draw(st.booleans()):
            out.append(("text", []))
            continue
        before: list[str] = []
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)):
            out.append((f"#{'elif' if before else 'if'} {name}", None))
            out += _under([name, *before], draw(_conditionals(depth - 1)))
            before.append(f"!{name}")
        if draw(st.booleans()):
            out.append(("#else", None))
            out += _under(before, draw(_conditionals(depth - 1)))
        out.append(("#endif", None))
    return out


def _under(conditions: list[str], lines: Lines) -> Lines:
    return [(line, None if inner is None else conditions + inner) for line, inner in lines]


@given(_conditionals(), st.fixed_dictionaries({name: st.booleans() for name in NAMES}))
def test_a_line_is_kept_exactly_when_all_conditions_around_it_hold(lines: Lines, macros: dict[str, bool]) -> None:
    def holds(condition: str) -> bool:
        return macros[condition.lstrip("!")] is not condition.startswith("!")

    numbered = [line if where is None else f"line {i}" for i, (line, where) in enumerate(lines)]
    kept = [line for line in _preprocess("\n".join(numbered), {"USE_ROCM": True, **macros}).split("\n") if line]
    assert kept == [f"line {i}" for i, (_, where) in enumerate(lines) if where is not None and all(map(holds, where))]


# ---- definitions


def test_definitions_have_the_namespace_of_their_library() -> None:
    text = """\
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("gemm(Tensor a, "
          "      Tensor b) -> Tensor");
  ops.impl("gemm", torch::kCUDA, &gemm);
}
STABLE_TORCH_LIBRARY_FRAGMENT(_C_cache_ops, cache_ops) { cache_ops.def("swap(Tensor a) -> ()"); }
TORCH_LIBRARY_FRAGMENT(CONCAT(TORCH_EXTENSION_NAME, _custom_ar), custom_ar) {
  custom_ar.def("dispose", &dispose);
  other.def("not_of_this_library() -> ()");
}"""
    assert definitions(text, "_moe_C") == [
        ("_moe_C", "gemm(Tensor a, Tensor b) -> Tensor"),
        ("_C_cache_ops", "swap(Tensor a) -> ()"),
        ("_moe_C_custom_ar", "dispose"),
    ]


def test_a_definition_outside_any_library_is_none() -> None:
    assert definitions('m.def("gemm() -> ()");', "_C") == []


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
    assert declared_build(tree, TARGETS[target]) == DeclaredBuild(known=True)
    assert NATIVE_MODULES[TARGETS[target].platform] == ()


def test_a_tree_without_csrc_has_a_build_that_nothing_is_known_of(tmp_path: Path) -> None:
    assert declared_build(tmp_path, TARGETS["gfx942/MI300X"]) == DeclaredBuild(known=False)


# ---- the declared build of a real release


@pytest.fixture(scope="module")
def real(vllm_tree: Path) -> dict[str, set[str]]:
    return {name: _operators(vllm_tree, name) for name in TARGETS}


def test_a_rocm_build_has_what_use_rocm_adds_and_lacks_what_it_takes_away(real: dict[str, set[str]]) -> None:
    rocm, cuda = real["gfx942/MI300X"], real["sm90/H100"]
    assert {"_rocm_C::wvSplitKQ", "_rocm_C::paged_attention", "_C_custom_ar::qr_all_reduce"} <= rocm - cuda
    assert {"_C::cutlass_scaled_mm", "_moe_C::fused_globalize_align_block_size"} <= cuda - rocm
    assert {"_C::rms_norm", "_C_cache_ops::reshape_and_cache", "_moe_C::topk_softmax"} <= rocm & cuda


def test_only_a_gfx11_build_has_the_rdna3_kernels(real: dict[str, set[str]]) -> None:
    for name, operators in real.items():
        assert ("_rocm_C::gptq_gemm_rdna3" in operators) == name.startswith("gfx11")


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
    files = (vllm_tree / "csrc").rglob("*bindings.cpp")
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
    build = DeclaredBuild(True, (*((SPACE, schema) for schema in schemas), ("_C", f"{QUERY}(int capability) -> bool")))
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


def test_an_unknown_build_notes_every_question_for_an_operator(
    monkeypatch: pytest.MonkeyPatch, journal: Journal
) -> None:
    kind = torch._ops._OpNamespace
    monkeypatch.setattr(kind, "__getattr__", kind.__getattr__)  # so that the watch goes with this test
    assert register(DeclaredBuild(known=False), {}, journal) == []
    assert not hasattr(torch.ops._rocm_C, "wvSplitKQ")
    assert not hasattr(torch.ops.other_namespace, "wvSplitKQ")
    assert journal.unanswerable == ["whether the build has operator _rocm_C::wvSplitKQ (the subject has no csrc)"]


def test_a_known_build_notes_no_question(registered: list[object], journal: Journal) -> None:
    assert not hasattr(getattr(torch.ops, SPACE), "nothing")
    assert journal == Journal()
