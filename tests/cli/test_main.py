"""``gfxloop`` as a whole: its exit codes, its streams and its error messages."""

from __future__ import annotations

import json
import shutil

import pytest

from harness.bundled import matrix_path
from harness.model.record import Outcome, Record

CPU = ("--target", "cpu", "--kernel", "fp8_block", "--model", "qwen3-0.6b")
GUARD = ("--target", "cpu", "--kernel", "w8a8_triton_block_scaled_mm")


def test_a_clean_check_exits_0_and_ends_with_the_verdict_and_a_report_that_is_there(gfxloop, tmp_path):
    done = gfxloop("check", *CPU, versions=("0.33.0",))
    assert done.returncode == 0, done.stderr
    verdict, report = done.stdout.strip().splitlines()[-2:]
    assert verdict.startswith("gfxloop: PASSED: 4 passed, 0 failed")
    assert (tmp_path / report.removeprefix("report: ")).read_text(encoding="utf-8").startswith("#")


def test_a_failing_check_exits_1_and_names_the_fault(gfxloop):
    done = gfxloop("check", "--subject", "pypi:0.28.0", *GUARD, versions=("0.28.0",))
    assert done.returncode == 1, done.stderr
    assert "I4 at w8a8_triton_block_scaled_mm" in done.stdout
    assert "gfxloop: FAILED" in done.stdout


def test_json_is_one_object_on_stdout_with_the_fields_that_others_script_on(gfxloop):
    done = gfxloop("check", *CPU, "--json", versions=("0.33.0",))
    body = json.loads(done.stdout)
    assert body["schema"] == 1
    assert body["subject"]["spec"] == "pypi:0.33.0"
    assert body["summary"]["passed"] == len(body["records"]) == 4
    assert set(body["summary"]) == {outcome.value for outcome in Outcome}
    wanted = {
        "id",
        "platform",
        "target",
        "tier",
        "surface",
        "kernel",
        "chosen",
        "outcome",
        "reason",
        "candidates",
        "findings",
    }
    assert all(wanted <= set(record) for record in body["records"])
    assert {"name", "accepted", "reason"} <= set(body["records"][0]["candidates"][0])
    assert Record.model_validate(body["records"][0]).chosen == "CPUFp8BlockScaledMMKernel"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("check", "--target", "gfx94"), 2, "--target: unknown name (got 'gfx94'). Did you mean 'gfx942'?"),
        (("check", "--kernel", "fp8_blok"), 2, "Did you mean 'fp8_block'?"),
        (("check", "--tier", "compile"), 3, "no cell"),
        (("check", "--target", "cpu", "--environment", "aiter_on"), 3, "no cell"),
        (("check", "--target", "cpu", "--subject", "path:/nowhere"), 4, "/nowhere"),
        (("check", "--target", "cpu", "--subject", "pipy:0.33.0"), 2, "pypi"),
        (("check", "--target", "cpu", "--aiter", "tables:/nowhere"), 4, "/nowhere"),
        (("check", "--target", "cpu", "--env", "VLLM"), 2, "--env"),
        (("check", "--target", "cpu", "--packages", "+flash_atn"), 2, "flash_attn"),
        (("check", "--matrix", "absent.yaml"), 2, "absent.yaml"),
        (("explain", "--model", "llama-3.1-70b", "--target", "gfx942", "--tp", "7"), 2, "not divisible"),
        (("reproduce", "all"), 2, "not the id of a cell (got 'all'"),
        (("explain", "--model", "all", "--target", "gfx942"), 2, "not one model (got 'all')"),
        (("explain", "--model", "deepseek-v3", "--target", "rocm"), 2, "not one target"),
        (
            ("check", "--environment", "aiter_off", "--env", "VLLM_ROCM_USE_AITER=1"),
            2,
            "'aiter_off' sets VLLM_ROCM",
        ),
        (("reproduce", "route/linear/nowhere"), 2, "route/linear/nowhere"),
        (("compare", "absent-directory", "pypi:0.33.0"), 2, "absent-directory"),
        (("chek",), 2, "Did you mean 'check'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_one_message_with_its_exit_code(gfxloop, words, code, said):
    done = gfxloop(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_misspelt_variable_of_vllm_is_an_error_and_not_a_run_without_it(gfxloop):
    done = gfxloop("check", "--target", "cpu", "--env", "VLLM_ROCM_USE_AITR=1", versions=("0.33.0",))
    assert done.returncode == 2
    assert "Did you mean 'VLLM_ROCM_USE_AITER'?" in done.stderr


def test_a_file_of_the_subject_that_does_not_parse_is_one_finding_with_its_line(gfxloop, located, tmp_path):
    tree = located("0.33.0").tree
    (tmp_path / "tree").mkdir()
    shutil.copytree(tree / "vllm", tmp_path / "tree" / "vllm", ignore=shutil.ignore_patterns("__pycache__"))
    broken = tmp_path / "tree" / "vllm" / "platforms" / "cpu.py"
    broken.write_text("import os\ndef broken(:\n", encoding="utf-8")
    done = gfxloop("check", "--subject", "path:tree", *CPU)
    assert done.returncode == 1, done.stderr
    assert "import at vllm/platforms/cpu.py:2" in done.stdout
    assert "4 failed" in done.stdout


def test_the_command_that_reproduces_a_cell_names_the_matrix_that_has_it(gfxloop, tmp_path):
    text = matrix_path().read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    done = gfxloop("check", "--matrix", "mine.yaml", *CPU, "--json", versions=("0.33.0",))
    assert json.loads(done.stdout)["records"][0]["reproduce"].endswith("--matrix mine.yaml")


def test_a_broken_matrix_is_named_by_line_and_column(gfxloop, tmp_path):
    (tmp_path / "broken.yaml").write_text("schema: 1\ntargts: [cpu]\n", encoding="utf-8")
    done = gfxloop("matrix", "check", "--matrix", "broken.yaml")
    assert done.returncode == 2
    assert "broken.yaml:2:1" in done.stderr
    assert "targets" in done.stderr


def test_an_environment_variable_leaves_out_the_profiles_that_contradict_it(gfxloop):
    words = ("--target", "gfx950", "--kernel", "is_enabled", "--env", "VLLM_ROCM_USE_AITER=1", "--json")
    done = gfxloop("check", *words, versions=("0.33.0",))
    assert done.returncode == 0, done.stderr
    assert {record["environment"] for record in json.loads(done.stdout)["records"]} == {
        "aiter_on",
        "aiter_on_no_fp8bmm",
    }
    assert "'aiter_off' sets VLLM_ROCM_USE_AITER=0" in done.stderr


def test_matrix_list_gives_ids_and_json_of_the_same_cells(gfxloop):
    plain = gfxloop("matrix", "list", *CPU)
    body = json.loads(gfxloop("matrix", "list", *CPU, "--json").stdout)
    assert plain.stdout.split() == [cell["id"] for cell in body["cells"]]
    assert body["cells"][0]["mark"] == "cpu"


def test_the_command_that_a_record_carries_reproduces_it(gfxloop):
    record = json.loads(gfxloop("check", *CPU, "--json", versions=("0.33.0",)).stdout)["records"][0]
    words = record["reproduce"].split()
    assert words[0] == "gfxloop"
    again = gfxloop(*words[1:], "--json")
    assert json.loads(again.stdout) == record


def test_explain_names_each_layer_its_kernel_and_why_not_the_others(gfxloop):
    words = ("--model", "llama-3.1-70b", "--target", "gfx1100", "--tp", "4", "--kernel", "fp8_tensor_static")
    done = gfxloop("explain", *words, "--environment", "aiter_off", versions=("0.33.0",))
    assert done.returncode == 0, done.stderr
    assert "qkv 2560x8192, o 8192x2048, gate_up 14336x8192, down 8192x7168 -> no kernel" in done.stdout
    assert "PerTensorTorchFP8ScaledMMLinearKernel: passed over (architecture): requires a platform" in done.stdout


def test_compare_takes_run_directories_and_subjects_and_says_what_changed(gfxloop):
    first = gfxloop("check", "--subject", "pypi:0.28.0", *GUARD, "--out", "before", versions=("0.28.0", "0.29.0"))
    assert first.returncode == 1, first.stderr
    done = gfxloop("compare", "before", "pypi:0.29.0", *GUARD, "--json")
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    (row,) = body["rows"]
    assert (row["verdict"], row["before"]["outcome"], row["after"]["outcome"]) == ("fixed", "failed", "passed")
    back = gfxloop("compare", "pypi:0.29.0", "before", *GUARD)
    assert back.returncode == 1, back.stderr
    assert "regressed" in back.stdout


def test_run_runs_the_suites_from_anywhere_and_writes_a_run_directory(gfxloop, tmp_path):
    done = gfxloop("run", *CPU, "-q", "--out", "suites", versions=("0.33.0",))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert (tmp_path / "suites" / "report.md").is_file()
