from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.subjects import Located
from harness.targets.facts import TARGETS
from harness.targets.operators import COMPILED, TABLE, definitions, main, read_table, table_text

TARGET = {name: TARGETS[name] for name in ("gfx942/MI300X", "gfx950/MI350X", "gfx1250", "sm90/H100", "cpu")}


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


def test_quotes_inside_a_schema_are_quotes() -> None:
    text = r"""TORCH_LIBRARY(_C, m) { m.def("store(Tensor a, str dtype=\"auto\") -> ()"); }"""
    assert definitions(text, "_C") == [("_C", 'store(Tensor a, str dtype="auto") -> ()')]


# ---- the table


def _table(tmp_path: Path, **operators: str) -> Path:
    """A table of operators, each with the names of the targets whose build has it."""
    builds = [
        (target, [("_C", f"{name}() -> ()") for name, names in operators.items() if target.gfx in names.split()])
        for target in TARGET.values()
    ]
    path = tmp_path / "operators.tsv"
    path.write_text(table_text(builds, "9.9.9"))
    return path


def test_a_table_gives_back_what_each_build_has(tmp_path: Path) -> None:
    operators = {"all": "gfx942 gfx950 gfx1250 sm90 cpu", "most": "gfx942 gfx950 sm90", "one": "gfx950", "none": ""}
    table = read_table(_table(tmp_path, **operators))
    assert table.release == "9.9.9"
    for target in TARGET.values():
        has = {schema.partition("(")[0] for _, schema in table.of(target)}
        assert has == {name for name, names in operators.items() if target.gfx in names.split()}


def test_a_table_says_a_platform_without_some_of_its_targets(tmp_path: Path) -> None:
    lines = _table(tmp_path, skinny="gfx942 gfx950", rare="gfx950", gpu="gfx942 gfx950 gfx1250 sm90").read_text()
    assert "_C\trocm,-gfx1250\tskinny() -> ()" in lines
    assert "_C\tgfx950\trare() -> ()" in lines
    assert "_C\trocm,cuda\tgpu() -> ()" in lines


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "operators.tsv"
    path.write_text("namespace\tschema\n")
    with pytest.raises(ValueError, match=r"operators\.tsv: no table of operators"):
        read_table(path)


def test_the_checked_in_table_is_that_of_its_release(located: Callable[..., Located]) -> None:
    written: list[str] = []
    release = read_table().release
    main([str(located(release).tree), release], written.append)
    assert "".join(written) == TABLE.read_text(), "run: python -m harness.targets.operators TREE VERSION"


def test_every_compiled_platform_has_rows() -> None:
    table = read_table()
    for target in TARGETS.values():
        assert bool(table.of(target)) == (target.platform in COMPILED)
