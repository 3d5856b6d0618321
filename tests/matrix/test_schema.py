"""schema: the form of the file. The faults that need no looking-up."""

from __future__ import annotations

import pytest

from harness.model.errors import MatrixError

FAULTS = [
    ("schema: 1", "schema: 2", "1:9", "wrong value for 'schema' (got 2; expected 1)"),
    ("schema: 1", 'schema: "1"', "1:9", "wrong value for 'schema' (got '1'; expected 1)"),
    ("schema: 1\n", "", "1:1", "the key 'schema' is missing"),
    ("tier: route", "tier: rout", "17:26", "Did you mean 'route'?"),
    ("surface: linear", "surface: linaer", "17:42", "Did you mean 'linear'?"),
    ("  linear:\n", "  linaer:\n", "8:3", "wrong name (got 'linaer'"),
    ("models: [all]", "models: [all], kernel: x", "17:102", "unknown key (got 'kernel'). Did you mean 'kernels'?"),
    ("schema: 1", "schema: 1\ncell: []", "2:1", "unknown key (got 'cell'). Did you mean 'cells'?"),
    ("  off: {platforms", "  off: {platform", "5:9", "unknown key (got 'platform'). Did you mean 'platforms'?"),
    ("{shape: 64", "{shap: 64", "15:84", "unknown key (got 'shap'). Did you mean 'shape'?"),
    ('USE: "0"', "USE: 0", "5:39", "wrong value for 'USE' (got 0; expected text; put it in quotes)"),
    ('USE: "0"', '"U SE": "0"', "5:34", "wrong name (got 'U SE'"),
    ("int8_token:", "bad/name:", "10:12", "wrong name (got 'bad/name'"),
    (
        "{per_tensor: {symbol: 'a:P'}, row_wise: {symbol: 'a.b:R'}}",
        "[row_wise, row_wise]",
        "12:12",
        "each name once: row_wise",
    ),
    (
        "{per_tensor: {symbol: 'a:P'}, row_wise: {symbol: 'a.b:R'}}",
        "[row_wise, [x]]",
        "12:12",
        "a word or a list of words",
    ),
    ("a16: true", "a16: {a: b}", "9:69", "(got 'a mapping'; expected text, a whole number"),
    ("a16: true", "a16: ~", "9:69", "(got 'nothing'; expected text, a whole number"),
    ("tp: [2, 8]", "tp: 0", "14:48", "a size from 1 to 1024"),
    ("tp: [2, 8]", "tp: true", "14:48", "a size from 1 to 1024"),
    ("tp: [2, 8]", "tp: [2, 2]", "14:48", "each size once"),
    ("kernels: [fp8]", "kernels: []", "14:65", "a word or a list of words"),
    ("layers: {o: {shape: 64 x 64, source: a paper}}", "layers: {}", "15:79", "at least 1"),
]


@pytest.mark.parametrize(("old", "new", "place", "what"), FAULTS, ids=[new[:30] for _, new, _, _ in FAULTS])
def test_a_fault_of_form_is_named_with_its_place(load, base, old, new, place, what):
    assert base.count(old) >= 1
    with pytest.raises(MatrixError) as caught:
        load(base.replace(old, new, 1))
    assert f"matrix.yaml:{place}: " in str(caught.value)
    assert what in str(caught.value)


def test_several_faults_are_reported_together(load, base):
    with pytest.raises(MatrixError) as caught:
        load(base.replace("tier: route", "tier: rout").replace('USE: "0"', "USE: 0"))
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("text", ["[1]", "word", "1"])
def test_a_file_that_is_no_mapping_is_refused(load, text):
    with pytest.raises(MatrixError, match="expected a mapping"):
        load(text)


def test_a_word_may_stand_where_a_list_is_allowed(load, base):
    short = base.replace("targets: [all]", "targets: all").replace("models: [all]", "models: all")
    assert load(short).cells == load(base).cells
