"""schemes: what a scheme holds is checked, each fault at its line and column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters.linear import REQUESTS
from harness.matrix.schemes import ENTRIES, LINEAR, OTHERS, faults
from harness.model.cell import FROM_COMMANDS, Surface
from harness.model.errors import MatrixError

MP = "entry: mp, weight_type: uint4b8, group_size: 128, zero_points: false, dtype: bfloat16"
FP8 = "entry: fp8, activation: kFp8DynamicTokenSym, weight: kFp8StaticChannelSym"
SYMBOL = "symbol: 'a:P'"

BROKEN = [
    (FP8, "fp8,", "fp9,", "fp9", "wrong value for 'entry' (got 'fp9'; expected one of fp8, ", "Did you mean 'fp8'?"),
    (FP8, "entry", "entri", "entri", "unknown key (got 'entri')", "Did you mean 'entry'?"),
    (FP8, "entry", "entri", "{", "the key 'entry' is missing (expected one of fp8, ", ""),
    (FP8, "activation", "activatin", "activatin", "unknown key (got 'activatin')", "Did you mean 'activation'?"),
    (FP8, "activation", "activatin", "{", "the key 'activation' is missing", ""),
    (FP8, "kFp8DynamicTokenSym", "fp8", "fp8, weight", "wrong value for 'activation' (got 'fp8'; ", "quant_utils"),
    (FP8, "kFp8DynamicTokenSym", "true", "true", "wrong value for 'activation' (got True; ", "quant_utils"),
    (MP, "group_size: 128, ", "", "{", "the key 'group_size' is missing (expected -1 or a whole number above 0)", ""),
    (MP, "uint4b8", "uint4bb8", "uint4bb8", "wrong value for 'weight_type' (got 'uint4bb8'", "Did you mean 'uint4b8'?"),
    (MP, "128", '"x"', '"x"', "wrong value for 'group_size' (got 'x'; expected -1 or", ""),
    (MP, "128", "0", "0", "wrong value for 'group_size' (got 0; ", ""),
    (MP, "128", "true", "true", "wrong value for 'group_size' (got True; ", ""),
    (MP, "false", "0", "0, dtype", "wrong value for 'zero_points' (got 0; expected true or false)", ""),
    (MP, "bfloat16", "bfloat1", "bfloat1", "wrong value for 'dtype' (got 'bfloat1'; ", "Did you mean 'bfloat16'?"),
    ("entry: nvfp4, a16: true", "a16", "a_16", "a_16", "unknown key (got 'a_16')", "Did you mean 'a16'?"),
    ("entry: mxfp8", "mxfp8", "mxfp8, a16: true", "a16", "unknown key (got 'a16')", "Known: chain, entry, env, needs."),
]  # fmt: skip


def _said(load, text: str) -> str:
    with pytest.raises(MatrixError) as caught:
        load(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sound", "old", "new", "at", "what", "more"),
    BROKEN,
    ids=[f"{new} {what[:40]}" for _, _, new, _, what, _ in BROKEN],
)
def test_a_fault_of_a_linear_scheme_is_named_with_its_place(load, base, sound, old, new, at, what, more):
    text = base.replace("entry: mxfp8", sound, 1)
    assert load(text).kernels
    broken = sound.replace(old, new, 1)
    line = next(row for row in base.replace("entry: mxfp8", broken, 1).splitlines() if "fp8_token" in row)
    start = line.index("{" + broken)
    said = _said(load, base.replace("entry: mxfp8", broken, 1)).splitlines()
    fault = [row for row in said if f"matrix.yaml:9:{line.index(at, start) + 1}: {what}" in row]
    assert fault, said
    assert more in fault[0]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (SYMBOL, "symbol: 'a.P'", "12:34: wrong value for 'symbol' (got 'a.P'; expected dotted.module:Name)"),
        (SYMBOL, "symbol: 'a:b:P'", "12:34: wrong value for 'symbol'"),
        (SYMBOL, "symbo: 'a:P'", "12:26: unknown key (got 'symbo'). Did you mean 'symbol'?"),
        ("{symbol: 'a:P'}", "{}", "12:25: the key 'symbol' is missing (expected dotted.module:Name)"),
        ("torch: {per_tensor: {symbol: 'a:P'}, ", "t: [bare]\n    torch: {", "12:8: the key 'symbol' is missing"),
        ("  allowlist:\n", "  platform: {f: {x: {entry: fp8}}}\n  allowlist:\n", "11:22: unknown key (got 'entry')"),
        ("  allowlist:\n", "  aiter_gate: {g: {x: {args: nk}}}\n  allowlist:\n", "11:24: unknown key (got 'args')"),
        ("  allowlist:\n", "  guard: {g: {x: {symbol: 'a:B'}}}\n  allowlist:\n", "11:19: unknown key (got 'symbol')"),
        ("  allowlist:\n", "  tuned_gate: {g: {x: {args: nk_byte}}}\n  allowlist:\n",
         "11:30: wrong value for 'args' (got 'nk_byte'; expected one of nk, nk_bytes, nk_dtype). Did you mean 'nk_b"),
    ],
)  # fmt: skip
def test_a_fault_of_a_scheme_of_another_surface_is_named_with_its_place(load, base, old, new, what):
    assert f"matrix.yaml:{what}" in _said(load, base.replace(old, new, 1))


def test_faults_of_several_schemes_are_listed_together(load, base):
    said = _said(load, base.replace("entry: mxfp8", "entry: fp9").replace("'a:P'", "'a.P'").replace("a16", "a_16"))
    assert len(said.splitlines()) == 3


@pytest.mark.parametrize("surface", [s for s in Surface if s not in (Surface.ALLOWLIST, *FROM_COMMANDS)])
def test_needs_is_allowed_on_every_surface(surface):
    with_needs, without = (list(faults(surface, scheme)) for scheme in ({"needs": ("a:b",)}, {}))
    assert with_needs == without


@pytest.mark.parametrize("surface", FROM_COMMANDS)
def test_a_surface_whose_cells_come_from_elsewhere_is_refused(surface):
    (fault,) = faults(surface, {})
    assert FROM_COMMANDS[surface] in fault.hint


def test_every_surface_and_every_entry_of_the_adapter_has_a_table():
    assert set(OTHERS) | set(ENTRIES) | set(FROM_COMMANDS) == set(Surface)
    assert set(LINEAR) == set(REQUESTS)


@given(
    surface=st.sampled_from(Surface),
    scheme=st.dictionaries(
        st.sampled_from(["entry", "a16", "group_size", "weight", "args", "symbol", "needs"]) | st.text(max_size=5),
        st.sampled_from([*LINEAR, "a:B", "nk"]) | st.text(max_size=5) | st.integers() | st.booleans()
        | st.lists(st.text(max_size=3)).map(tuple),
    ),
)  # fmt: skip
def test_any_scheme_is_judged_and_a_fault_names_a_key_it_holds(surface, scheme):
    for fault in faults(surface, scheme):
        assert fault.key is None or fault.key in scheme
