from __future__ import annotations

from types import ModuleType

from harness.compare.compare import compare
from harness.model.record import Outcome
from harness.report.changes import summarise_comparison
from harness.report.markdown_compare import markdown_comparison


def page(baseline: object, candidate: object) -> str:
    return markdown_comparison(summarise_comparison(compare(baseline, candidate)))  # type: ignore[arg-type]


def test_each_entry_has_both_kernels_both_reasons_and_the_command(samples: ModuleType) -> None:
    text = page(samples.realistic(faulty=True), samples.realistic(faulty=False))
    assert text.startswith(
        "# gfxloop compare: PASSED\n\n`pypi:0.29.0` against the baseline `pypi:0.28.0`: 540 unchanged, 36 fixed.\n"
    )
    assert (
        "- `fp8` on `gfx1100`: fixed, rerouted, 36 cells\n"
        "  - before: `TorchScaledMM` (failed)\n"
        "    - `gfx1100 has no FP8 matrix instruction, but TorchScaledMM was chosen`\n"
        "    - `TorchScaledMM: accepted`\n"
        "    - `ChannelWiseTorch: not reached`\n"
        "  - after: `ChannelWiseTorch` (passed)\n"
        "    - `TorchScaledMM: refused: requires compute capability 89, gfx1100 has none`\n"
        "    - `ChannelWiseTorch: accepted`\n"
        "  - reproduce: `gfxloop reproduce route/linear/gfx1100.RX7900XTX/"
    ) in text


def test_a_regression_is_named_first_with_what_blocks(samples: ModuleType) -> None:
    text = page(samples.realistic(faulty=False), samples.realistic(faulty=True))
    assert text.startswith("# gfxloop compare: FAILED")
    assert "- blocks: 36 regressed" in text
    assert "## Regressed" in text
    assert "## Fixed" not in text


def test_differing_facts_and_other_rows_are_told(samples: ModuleType) -> None:
    before = samples.run(samples.record("a"), samples.record("b"))
    after = samples.run(samples.record("a", outcome=Outcome.INFRA, reason="no `GPU`"), matrix_digest="m2")
    text = page(before, after)
    assert "- differs besides the tree: `matrix: m1 in the baseline, m2 in the candidate`" in text
    assert "- not comparable: 1 cell on `gfx942`: ``candidate infra: no `GPU` ``" not in text
    assert "- not comparable: 1 cell on `gfx942`: `` candidate infra: no `GPU` ``" in text
    assert "- removed (only in the baseline): 1 cell on `gfx942`" in text


def test_both_subjects_and_what_was_attached_are_at_the_top(samples: ModuleType) -> None:
    text = page(samples.realistic(faulty=True), samples.realistic(faulty=False))
    assert "- baseline: `pypi:0.28.0 (vLLM 0.28.0), AITER stand-in, run of " in text
    assert "- attached: `none`\n- simulated: `gfx90a/MI250X, " in text


def test_fixed_comes_before_rerouted(samples: ModuleType) -> None:
    before = samples.run(samples.record("a", outcome=Outcome.FAILED), samples.record("b"))
    after = samples.run(samples.record("a"), samples.record("b", chosen="X"))
    text = page(before, after)
    assert text.index("## Fixed") < text.index("## Rerouted to another kernel")
