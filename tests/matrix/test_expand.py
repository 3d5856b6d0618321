"""expand: names are looked up and products become cells."""

from __future__ import annotations

import pytest

from harness.matrix.expand import MAX_CELLS
from harness.model.cell import Layer, Surface, Tier
from harness.model.errors import MatrixError


def test_cells_are_the_product_in_the_order_of_the_file(load):
    cells = load().cells
    assert len(cells) == 8 * (2 * 2 * 2 + 3) + 5 * 2
    assert cells[0].id == "route/linear/gfx942.MI300X/off/fp8_token/big.tp2/qkv"
    assert cells[-1].id == "route/allowlist/cpu/plain/row_wise"
    targets = list(dict.fromkeys(cell.target.gfx for cell in cells))
    assert targets == ["gfx942", "gfx1100", "sm90", "cpu"]
    assert len({cell.id for cell in cells}) == len(cells)


def test_an_environment_is_only_used_on_its_platforms(load):
    pairs = {(cell.target.platform.value, cell.environment) for cell in load().cells}
    assert pairs == {("rocm", "off"), ("rocm", "on"), ("cuda", "plain"), ("cpu", "plain")}


def test_a_cell_carries_the_variables_the_scheme_and_the_shape_of_one_rank(load):
    cells = {cell.id: cell for cell in load().cells}
    cell = cells["route/linear/gfx1100.RX7900XTX/on/fp8_block/big.tp8/qkv"]
    assert cell.tier is Tier.ROUTE
    assert cell.env == {"USE": "1"}
    assert cell.kernel.scheme == {"entry": "nvfp4", "a16": True}
    assert cell.kernel.needs == ("vllm.a:block",)
    assert cell.kernel.family == "fp8"
    assert (cell.model, cell.tp, cell.layer) == ("big", 8, Layer("qkv", 2 * 64 + 128, 512))


def test_a_model_is_routed_only_with_the_kernels_it_lists(load):
    by_model = {(c.model, c.kernel.name) for c in load().cells if c.kernel.surface is Surface.LINEAR}
    assert ("big", "int8_token") not in by_model
    assert ("small", "int8_token") in by_model


def test_a_layer_keeps_its_own_source_or_takes_the_model_s(load):
    models = load().models
    assert models["small"].layers[0].source == "a paper"
    assert models["big"].layers[0].source == "https://example.org/big"


def test_a_bare_gfx_name_is_every_product_and_a_full_name_is_one(load, base):
    assert list(load().targets)[:2] == ["gfx942/MI300X", "gfx942/MI308X"]
    assert list(load(base.replace("[rocm, ", "[gfx942/MI308X, ")).targets) == ["gfx942/MI308X", "sm90/H100", "cpu"]


def test_an_exclusion_takes_its_cells_out_and_no_other(load, base):
    rule = "exclusions:\n  - {surface: linear, targets: [MI308X], environments: on, because: x}\n"
    before, after = load(base).cells, load(base + rule).cells
    gone = [c for c in before if c.target.product == "MI308X" and c.environment == "on" and c.model]
    assert gone
    assert after == tuple(cell for cell in before if cell not in gone)


FAULTS = [
    ("sm90, cpu", "sm9, cpu", "2:17", "unknown name in 'targets' (got 'sm9'). Did you mean 'sm90'?"),
    ("[cuda, cpu]", "[cud, cpu]", "4:23", "Did you mean 'cuda'?"),
    ("int8_token:", "fp8_token:", "10:23", "the name is taken on this surface (got 'fp8_token')"),
    ("int8_token:", "fp8:", "10:17", "the name is taken on this surface (got 'fp8')"),
    ("a16: true", "a16: [a]", "9:69", "a list is only allowed under 'needs'"),
    ("needs: ['vllm.a:block']", "needs: block", "9:82", "'needs' is not a list"),
    ("needs: ['vllm.a:block']", "needs: [block]", "9:83", "not a symbol"),
    ("tp: [2, 8]", "tp: [2, 3]", "14:52", "16 is not divisible by a tensor-parallel size of 3"),
    ("512 x 1024/tp", "512 y 1024/tp", "14:126", "not of the form 'N x K' (got '512 y 1024/tp'"),
    ("kernels: [fp8]", "kernels: [per_tensor]", "14:66", "unknown name in 'kernels' (got 'per_tensor')"),
    ("kernels: [fp8]", "kernels: [fp8, -fp8]", "14:65", "'kernels' stands for nothing"),
    ("environments: [all]", "environments: [-off, -on, -plain]", "17:80", "'environments' stands for nothing"),
    ("environments: [off, plain]", "environments: [of, plain]", "18:87", "Did you mean 'off'?"),
    ("[all], environments: [off, plain]", "[rocm], environments: [plain]", "18:5", "product is empty"),
    ("models: [all]", "models: [big], kernels: [int8]", "17:5", "product is empty"),
    (", models: [all]", "", "17:5", "need models, for its layers"),
    ("environments: [off, plain]}", "environments: [off, plain], models: [big]}", "18:5", "need no models"),
    ("cells:\n", "cells:\n  - {name: x, tier: route, surface: guard, targets: [cpu], environments: [all]}\n", "17:5",
     "'kernels' stands for nothing"),
    ("cells:\n", "cells:\n  - {name: x, tier: route, surface: allowlist, targets: [cpu], environments: [all]}\n",
     "19:5",
     "an earlier entry gives this cell already (got 'route/allowlist/cpu/plain/per_tensor')"),
    ("cells:\n", "exclusions:\n  - {targets: [sm90], environments: on, because: x}\ncells:\n",
     "17:5", "excludes nothing"),
    ("cells:\n", "exclusions:\n  - {surface: allowlist, because: x}\ncells:\n", "20:5", "every cell is excluded"),
    ("cells:\n", "exclusions:\n  - {models: [bigg], because: x}\ncells:\n", "17:15", "Did you mean 'big'?"),
    ("cells:\n", "exclusions:\n  - {layers: [p], because: x}\ncells:\n", "17:15", "unknown name in 'layers'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "place", "what"), FAULTS, ids=[f"{place} {what[:30]}" for *_, place, what in FAULTS]
)
def test_a_name_or_product_that_makes_no_sense_is_named_with_its_place(load, base, old, new, place, what):
    assert base.count(old) >= 1
    with pytest.raises(MatrixError) as caught:
        load(base.replace(old, new, 1))
    assert f"matrix.yaml:{place}: " in str(caught.value)
    assert what in str(caught.value)


def test_a_product_too_large_is_refused_before_it_is_made(load, base):
    layers = ", ".join(f"l{i}: 1 x 1" for i in range(300))
    tps = ", ".join(str(tp) for tp in range(1, 400))
    text = base.replace("tp: 1,", f"tp: [{tps}],").replace(
        "layers: {o: {shape: 64 x 64, source: a paper}}", f"layers: {{{layers}}}"
    )
    with pytest.raises(MatrixError, match=rf"too many cells \(got \d+; expected at most {MAX_CELLS}\)"):
        load(text)


SHAPED = "kernels:\n  unquantized_gemm: {gemm: {of_layers: {dtype: bfloat16}, own: {dtype: bfloat16, n: 8, k: 16}}}\n"
ENTRY = "cells:\n  - {name: x, tier: route, surface: unquantized_gemm, targets: [cpu], environments: [all], kernels: "


def test_a_surface_of_shapes_asks_about_layers_or_about_shapes_of_its_own(load, base):
    text = base.replace("kernels:\n", SHAPED, 1)
    layers = load(text.replace("cells:\n", f"{ENTRY}[of_layers], models: [small]}}\n", 1)).cells[0]
    own = load(text.replace("cells:\n", f"{ENTRY}[own]}}\n", 1)).cells[0]
    assert (layers.id, own.id) == (
        "route/unquantized_gemm/cpu/plain/of_layers/small.tp1/o",
        "route/unquantized_gemm/cpu/plain/own",
    )


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ("[of_layers]}", "need models, for its layers"),
        ("[own], models: [small]}", "need no models"),
        ("[all], models: [small]}", "need no models"),
        ("[all]}", "need models, for its layers"),
    ],
)
def test_shapes_of_their_own_and_layers_of_models_do_not_mix(load, base, rest, what):
    text = base.replace("kernels:\n", SHAPED, 1).replace("cells:\n", f"{ENTRY}{rest}\n", 1)
    with pytest.raises(MatrixError, match=what):
        load(text)
