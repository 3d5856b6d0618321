"""load_matrix: any bytes give a matrix or a MatrixError, and the matrix of this repository is sound."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.matrix.load import Matrix, load_matrix
from harness.model.cell import FROM_COMMANDS, Surface
from harness.model.errors import MatrixError
from harness.targets.facts import TARGETS

TODAY = datetime.date(2026, 1, 1)
REPOSITORY = Path(__file__).parents[2]


def _check_matrix_or_error(path: Path, facts, body: bytes) -> None:
    path.write_bytes(body)
    try:
        load_matrix(path, facts, TODAY)
    except MatrixError as error:
        said = str(error).splitlines()
    else:
        return
    assert all(line.startswith(str(path)) for line in said)


@given(body=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_give_a_matrix_or_a_matrix_error(body, facts, tmp_path):
    _check_matrix_or_error(tmp_path / "m.yaml", facts, body)


@given(body=st.text(":-[]{},&*!|>'\"%@`#?~ \n\t01aé", max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_yaml_punctuation_gives_a_matrix_or_a_matrix_error(body, facts, tmp_path):
    _check_matrix_or_error(tmp_path / "m.yaml", facts, body.encode())


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_sound_matrix_with_a_piece_changed_gives_a_matrix_or_a_matrix_error(data, base, facts, tmp_path):
    start = data.draw(st.integers(0, len(base)))
    end = data.draw(st.integers(start, min(len(base), start + 30)))
    piece = data.draw(st.text("[]{}:,-\n &*x/0{tp} \"'", max_size=10) | st.text(max_size=5))
    body = (base[:start] + piece + base[end:]).encode("utf-8", "replace")
    _check_matrix_or_error(tmp_path / "m.yaml", facts, body)


def test_loading_twice_gives_the_same_and_the_digest_follows_the_bytes(load, base):
    assert load(base) == load(base)
    assert load(base).digest != load(base + "# a comment\n").digest
    assert load(base).cells == load(base + "# a comment\n").cells


def test_cells_can_be_sent_to_another_process(load):
    cells = load().cells
    assert pickle.loads(pickle.dumps(cells)) == cells


@pytest.fixture(scope="module")
def real() -> Matrix:
    return load_matrix(REPOSITORY / "matrix.yaml", TARGETS, TODAY)


def test_the_repository_s_matrix_is_short_and_its_cost_bounded(real):
    assert len(real.path.read_text().splitlines()) < 1_250
    assert 20_000 <= len(real.cells) <= 28_000
    assert len({(cell.target.name, cell.environment) for cell in real.cells}) <= 54  # workers, the dear part


def test_the_repository_s_matrix_asks_every_target_and_surface(real):
    assert {cell.target.name for cell in real.cells} == set(TARGETS)
    assert {cell.kernel.surface for cell in real.cells} == set(Surface) - set(FROM_COMMANDS)


def test_no_target_shares_its_answers_by_name_only(real):
    """MI308X differs from MI300X by cu_count, so it is asked wherever tuned rows can decide."""
    asked = {(c.environment, c.kernel.surface) for c in real.cells if c.target.product == "MI308X"}
    assert {("aiter_off", Surface.LINEAR), ("aiter_on", Surface.LINEAR), ("aiter_on", Surface.TUNED_GATE)} <= asked


DEEPSEEK_TP8 = {
    "q_a": (1536, 7168), "q_b": (3072, 1536), "kv_a": (576, 7168), "fused_qkv_a": (2112, 7168), "kv_b": (4096, 512),
    "o": (7168, 2048), "gate_up": (4608, 7168), "down": (7168, 2304), "shared_gate_up": (512, 7168),
    "shared_down": (7168, 256),
}  # fmt: skip


def test_deepseek_v3_at_tp8_has_the_shapes_of_its_config(real):
    cells = [c for c in real.cells if c.model == "deepseek-v3" and c.layer is not None]
    assert {(c.tp, c.layer.name, c.layer.n, c.layer.k) for c in cells} == {
        (8, name, n, k) for name, (n, k) in DEEPSEEK_TP8.items()
    }


@pytest.mark.parametrize(
    ("cell_id", "allowed", "never"),
    [
        ("route/allowlist/gfx1100.RX7900XTX/aiter_off/torch_fp8_row_wise", {"refused"}, None),
        ("route/allowlist/gfx1250/aiter_off/torch_fp8_row_wise", {"accepted"}, None),
        ("route/allowlist/cpu/default/torch_fp8_per_tensor", {"accepted"}, None),
        ("route/allowlist/cpu/default/torch_fp8_row_wise", {"refused"}, None),
        ("route/allowlist/none/default/torch_fp8_per_tensor", {"refused"}, None),
        ("route/allowlist/sm80.A100/default/torch_fp8_channel_wise", {"refused"}, None),
        ("route/linear/gfx1100.RX7900XTX/aiter_off/fp8_block/deepseek-v3.tp8/o",
         {"TritonFp8BlockScaledMMKernel"}, None),
        ("route/linear/gfx950.MI350X/aiter_on/fp8_block/deepseek-v3.tp8/o", {"AiterFp8BlockScaledMMKernel"},
         "AiterPreshuffledFp8BlockScaledMMKernel"),
        ("route/allowlist/gfx1100.RX7900XTX/aiter_off/torch_fp8_per_tensor", {"refused"}, None),
        ("route/linear/gfx1100.RX7900XTX/aiter_on/fp8_tensor_static/qwen3-0.6b.tp1/o", None,
         "ROCmFP8ScaledMMLinearKernel"),
        ("route/platform/gfx942.MI308X/aiter_off/fp8_dtype", {"torch.float8_e4m3fnuz"}, None),
        ("guard/guard/gfx1250/aiter_off/w8a8_triton_block_scaled_mm", {"completed"}, None),
        ("guard/guard/xpu/default/w8a8_triton_block_scaled_mm", {"launched"}, None),
        ("route/aiter_gate/gfx950.MI350X/aiter_on_no_fp8bmm/is_fp8bmm_enabled", {"False"}, None),
    ],
)  # fmt: skip
def test_the_faults_the_harness_exists_for_are_expected_against_by_name(real, cell_id, allowed, never):
    cell = next(cell for cell in real.cells if cell.id == cell_id)
    expected = real.expected(cell, aiter=True)
    assert expected is not None
    assert expected.allowed == allowed
    assert never is None or never in expected.never


def test_the_whole_allowlist_table_is_written(real):
    asked = [cell for cell in real.cells if cell.kernel.surface is Surface.ALLOWLIST]
    assert len(asked) == 3 * len(TARGETS)
    for cell in asked:
        for present in (True, False):
            expected = real.expected(cell, aiter=present)
            assert expected is not None, cell.id
            assert expected.allowed is not None, cell.id
