"""The plugin: what is selected, what becomes of each outcome, the exit codes, and that it leaves others alone."""

from __future__ import annotations

import fnmatch

import pytest

from harness.bundled import matrix_path
from harness.records import read_run

pytest_plugins = ["pytester"]

CPU = ("--target", "cpu", "--kernel", "fp8_block", "--model", "qwen3-0.6b")
GUARD = ("--kernel", "w8a8_triton_block_scaled_mm", "--target", "cpu", "--target", "sm90")


def test_a_mark_selects_the_cells_of_its_target_alone(run_suites):
    result = run_suites("-m", "cpu and tier_guard", "--collect-only", "-q")
    ids = [line for line in result.outlines if "::" in line]
    assert all("[guard/" in line and "/cpu/" in line for line in ids)
    assert sum("guard/guard/cpu/default/w8a8_triton_block_scaled_mm" in line for line in ids) == 1


def test_the_header_names_subject_targets_tiers_and_what_is_attached(run_suites):
    result = run_suites(*CPU, "--collect-only")
    result.stdout.fnmatch_lines(["gfxloop: subject pypi:0.33.0, AITER stand-in, 4 cells of matrix.yaml"])
    result.stdout.fnmatch_lines(["gfxloop: tiers route; attached: none; simulated: cpu"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-m", "rocm_gfx999"), 3, "*no cell has this mark (got 'rocm_gfx999')*rocm_gfx942*"),
        (("-m", "cpu and cuda_sm90"), 3, "*nothing selected. Marks of this matrix: *rocm_gfx942*"),
        (("--target", "gfx99"), 2, "*--target: unknown name*"),
        (("--target", "cpu", "--environment", "aiter_on"), 3, "*no cell*"),
        (("--matrix", "absent.yaml"), 2, "*absent.yaml*"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_selection_of_nothing_and_a_wrong_word_are_never_a_success(run_suites, words, code, said):
    result = run_suites(*words)
    assert result.ret == code
    assert any(_matches(line, said) for line in result.outlines + result.errlines)


def test_a_failing_cell_fails_its_test_with_the_reason_and_the_command_that_reproduces_it(run_suites):
    result = run_suites(*GUARD, "--subject", "pypi:0.28.0")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*imports vllm.platforms.rocm, which is private to another platform, on cpu*"])
    result.stdout.fnmatch_lines(
        ["*gfxloop reproduce guard/guard/cpu/default/w8a8_triton_block_scaled_mm --subject pypi:0.28.0*"]
    )


def test_known_failures_are_expected_and_an_unexpected_pass_fails(run_suites, tmp_path):
    known = (
        "known_failures:\n  - {surface: guard, targets: [sm90], issue: https://example.org/1, "
        "owner: '@a', expires: 2999-01-01, reason: r}\n"
    )
    text = matrix_path().read_text(encoding="utf-8").partition("known_failures:")[0] + known
    (tmp_path / "matrix.yaml").write_text(text, encoding="utf-8")
    words = ("--matrix", str(tmp_path / "matrix.yaml"), "--kernel", "w8a8_triton_block_scaled_mm", "--target", "sm90")
    run_suites(*words, "--subject", "pypi:0.28.0").assert_outcomes(xfailed=1)
    passing = run_suites(*words)
    passing.assert_outcomes(failed=1)
    passing.stdout.fnmatch_lines(["*it passes; take out the known failure https://example.org/1*"])


def test_what_cannot_be_judged_is_skipped_with_what_to_do(run_suites):
    words = ("--target", "gfx942/MI308X", "--kernel", "fp8_token_channel", "--model", "qwen3-0.6b")
    result = run_suites(*words, "--environment", "aiter_on", "-rs")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED*indeterminate: cannot tell whether AITER's*--aiter tables:DIR*"])


def test_a_wrong_subject_or_output_folder_is_told_once_before_the_first_test(run_suites, tmp_path):
    wrong = run_suites(*CPU, "--subject", "path:/nowhere")
    assert wrong.ret == 4
    assert not any("passed" in line or "error" in line for line in wrong.outlines)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    full = run_suites(*CPU, "--out", str(tmp_path / "full"))
    assert full.ret == 4
    assert any("not an empty folder" in line for line in full.outlines + full.errlines)


def test_a_run_in_which_nothing_was_decided_is_no_success(run_suites, tmp_path):
    words = ("--target", "gfx942/MI308X", "--kernel", "fp8_token_channel", "--model", "qwen3-0.6b")
    result = run_suites(*words, "--environment", "aiter_on", "--out", str(tmp_path / "out"))
    result.assert_outcomes(skipped=4)
    assert result.ret == 4


def test_xdist_and_one_process_give_the_records_of_a_check(run_suites, pytester, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    selection = ("-m", "cpu or cuda_sm90", "--model", "qwen3-0.6b", "--kernel", "fp8")
    first = run_suites(*selection, "--out", str(one))
    assert first.ret == 0, first.outlines
    second = run_suites(*selection, "--out", str(two), "-n", "2")
    assert second.ret == 0, second.outlines
    records = [sorted(read_run(folder).records, key=lambda record: record.id) for folder in (one, two)]
    assert records[0] == records[1]
    assert len(records[0]) == 60
    assert (two / "report.md").is_file()
    second.stdout.fnmatch_lines(["gfxloop: PASSED: 60 passed*", "report: *report.md"])


def test_elsewhere_the_plugin_adds_nothing_but_its_fixtures(pytester):
    pytester.makepyfile("def test_plain():\n    assert True\n")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    assert not any("gfxloop:" in line for line in result.outlines)
    empty = pytester.mkdir("empty")
    assert pytester.runpytest_subprocess(str(empty)).ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_marks_are_registered_from_the_matrix(run_suites):
    result = run_suites("--markers")
    for mark in ("rocm_gfx942", "cuda_sm90", "cpu", "tier_route", "tier_guard"):
        result.stdout.fnmatch_lines([f"@pytest.mark.{mark}: *"])


def _matches(line: str, pattern: str) -> bool:
    return fnmatch.fnmatch(line, pattern.replace("[", "[[]"))
