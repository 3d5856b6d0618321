"""select and drop_contradicting: choosing cells by the words of a command line."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.matrix.load import load_matrix
from harness.matrix.select import drop_contradicting, select
from harness.model.errors import NothingSelectedError, UsageError


@pytest.fixture
def cells(load):
    return load().cells


def test_no_option_selects_everything_in_order(cells):
    assert select(cells) == cells


@pytest.mark.parametrize(
    ("word", "products"),
    [
        ("gfx942", {"MI300X", "MI308X"}),
        ("gfx942/MI308X", {"MI308X"}),
        ("MI308X", {"MI308X"}),
        ("rocm", {"MI300X", "MI308X", "RX7900XTX"}),
        ("rocm_gfx942", {"MI300X", "MI308X"}),
        ("cuda_sm90", {"H100"}),
        ("cpu", {"cpu"}),
        ("-rocm", {"H100", "cpu"}),
    ],
)
def test_a_target_word_is_gfx_target_full_name_product_mark_or_platform(cells, word, products):
    assert {cell.target.product for cell in select(cells, targets=[word])} == products


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("fp8_block", {"fp8_block"}),
        ("fp8", {"fp8_block", "fp8_token"}),
        ("allowlist", {"per_tensor", "row_wise"}),
        ("-linear", {"per_tensor", "row_wise"}),
    ],
)
def test_a_kernel_word_is_kernel_family_or_surface(cells, word, names):
    assert {cell.kernel.name for cell in select(cells, kernels=[word])} == names


def test_options_narrow_each_other_and_words_of_one_option_add_up(cells):
    chosen = select(cells, targets=["gfx1100", "cpu"], models=["small"], environments=["on", "plain"], tiers=["route"])
    assert {(c.target.gfx, c.environment, c.model) for c in chosen} == {
        ("gfx1100", "on", "small"),
        ("cpu", "plain", "small"),
    }


def test_an_id_selects_its_cell_alone(cells):
    assert select(cells, ids=[cells[3].id]) == (cells[3],)


@pytest.mark.parametrize(
    ("option", "word", "hint"),
    [
        ("targets", "gfx943", "--target: unknown name (got 'gfx943'). Did you mean 'gfx942'?"),
        ("tiers", "rout", "Did you mean 'route'?"),
        ("kernels", "fp8_blok", "Did you mean 'fp8_block'?"),
        ("models", "bigg", "Did you mean 'big'?"),
        ("environments", "of", "Did you mean 'off'?"),
        ("ids", "route/allowlist/cpu/plain/row_wis", "Did you mean 'route/allowlist/cpu/plain/row_wise'?"),
    ],
)
def test_an_unknown_word_is_a_usage_error_with_the_nearest_name(cells, option, word, hint):
    with pytest.raises(UsageError) as caught:
        select(cells, **{option: [word]})
    assert hint in str(caught.value)


def test_known_words_that_no_cell_has_together_say_what_exists(cells):
    with pytest.raises(NothingSelectedError) as caught:
        select(cells, targets=["cpu"], environments=["on"])
    assert "target cpu, environment on" in str(caught.value)
    assert "targets cpu gfx1100 gfx942 sm90" in str(caught.value)
    with pytest.raises(NothingSelectedError, match="tiers route"):
        select(cells, tiers=["execute"])


def test_a_target_that_is_known_but_has_no_cell_selects_nothing_rather_than_being_unknown(cells, facts):
    left = [cell for cell in cells if cell.target.gfx != "cpu"]
    with pytest.raises(NothingSelectedError):
        select(left, targets=["cpu"], all_targets=facts.values())
    with pytest.raises(UsageError):
        select(left, targets=["cpu"])


def test_a_mark_of_a_target_without_cells_is_known_too(cells, facts):
    left = [cell for cell in cells if cell.target.gfx != "sm90"]
    with pytest.raises(NothingSelectedError):
        select(left, targets=["cuda_sm90"], all_targets=facts.values())


def test_nothing_to_choose_from_is_said():
    with pytest.raises(NothingSelectedError, match="There are no cells"):
        select([])


@given(data=st.data())
def test_the_halves_of_a_selection_make_the_whole(data, request):
    cells = request.getfixturevalue("small_cells")
    word = data.draw(st.sampled_from(["rocm", "gfx942", "MI308X", "cpu", "cuda"]))
    both = (*select(cells, targets=[word]), *select(cells, targets=[f"-{word}"]))
    assert sorted(cell.id for cell in both) == sorted(cell.id for cell in cells)


@pytest.fixture(scope="module")
def small_cells(tmp_path_factory, facts, base):
    path = tmp_path_factory.mktemp("select") / "matrix.yaml"
    path.write_text(base)
    return load_matrix(path, facts, datetime.date(2026, 1, 1)).cells


def test_a_variable_that_a_profile_sets_otherwise_drops_the_profile_s_cells(cells):
    kept, notes = drop_contradicting(cells, {"USE": "1"})
    assert {cell.environment for cell in kept} == {"on", "plain"}
    assert kept == tuple(cell for cell in cells if cell.environment != "off")
    dropped = len(cells) - len(kept)
    assert notes == (f"environment profile 'off' sets USE=0 and --env asks for USE=1: {dropped} cells left out",)


def test_a_variable_that_no_profile_sets_drops_nothing(cells):
    assert drop_contradicting(cells, {"OTHER": "1"}) == (cells, ())
    assert drop_contradicting(cells, {}) == (cells, ())
