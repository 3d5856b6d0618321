"""words: what a word stands for, and conditions on cells."""

from __future__ import annotations

from harness.matrix.words import Selector, kernel_words, plain_words, resolve, table, target_words
from harness.model.cell import Cell, Kernel, Layer, Surface, Tier

KERNELS = (
    Kernel("block", Surface.LINEAR, "fp8", {}),
    Kernel("token", Surface.LINEAR, "fp8", {}),
    Kernel("row", Surface.ALLOWLIST, "torch", {}),
)


def test_a_target_is_named_by_platform_gfx_product_or_in_full(facts):
    words = target_words(facts.values())
    assert words["gfx942"] == {"gfx942/MI300X", "gfx942/MI308X"}
    assert words["MI308X"] == words["gfx942/MI308X"] == {"gfx942/MI308X"}
    assert words["rocm"] == words["gfx942"] | {"gfx1100/RX7900XTX"}
    assert words["all"] == set(facts)


def test_a_family_stands_for_its_kernels_on_its_surface_only():
    assert kernel_words(KERNELS, Surface.LINEAR)["fp8"] == {"block", "token"}
    assert "row" not in kernel_words(KERNELS, Surface.LINEAR)
    assert "row" in kernel_words(KERNELS)


def test_a_minus_takes_away_and_starts_from_all_when_it_comes_first(facts):
    words = target_words(facts.values())
    assert resolve(["rocm", "-gfx942"], words) == (frozenset({"gfx1100/RX7900XTX"}), ())
    assert resolve(["-rocm"], words) == (frozenset({"sm90/H100", "cpu"}), ())
    assert resolve(["gfx942", "-MI300X", "MI300X"], words)[0] == words["gfx942"]


def test_unknown_words_come_back_with_their_position():
    assert resolve(["a", "-x", "y"], plain_words("abc")) == (frozenset("a"), ((1, "x"), (2, "y")))


def test_no_word_stands_for_nothing():
    assert resolve([], table([("a", "b")])) == (frozenset(), ())


def test_a_selector_matches_only_what_meets_every_condition(facts):
    cell = Cell(Tier.ROUTE, facts["gfx942/MI300X"], "on", {}, KERNELS[0], "m", 8, Layer("o", 1, 2))
    free = Selector(None, None, None, None, None, None, None)
    assert free.matches(cell)
    right = {
        "tier": Tier.ROUTE,
        "surface": Surface.LINEAR,
        "targets": frozenset({"gfx942/MI300X"}),
        "environments": frozenset({"on"}),
        "kernels": frozenset({"block"}),
        "models": frozenset({"m"}),
        "layers": frozenset({"o"}),
    }
    assert Selector(**right).matches(cell)
    for key, value in right.items():
        wrong = {"tier": Tier.GUARD, "surface": Surface.GUARD}.get(key, frozenset({"other"}))
        assert not Selector(**{**right, key: wrong}).matches(cell), f"{key}={value}"


def test_a_condition_on_models_or_layers_leaves_out_cells_without_one(facts):
    cell = Cell(Tier.ROUTE, facts["cpu"], "plain", {}, KERNELS[2])
    names = frozenset({"o"})
    assert not Selector(None, None, None, None, None, names, None).matches(cell)
    assert not Selector(None, None, None, None, None, None, names).matches(cell)
