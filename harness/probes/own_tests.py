"""The subject's own tests as cells: files of its tree -> the tests that pytest finds there, on each target.

In: a campaign that names the subject. Out: the same campaign over one cell a test. Collecting runs in workers, one a
target, because which tests there are depends on the target. It must not run a test.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from harness.matrix import select
from harness.model.cell import Cell, Kernel, Surface, Tier
from harness.model.errors import NothingSelectedError, UnservableError, UsageError, located
from harness.model.record import Observation, Record
from harness.probes.campaign import Campaign
from harness.probes.invariants import Seen
from harness.probes.judge import judge
from harness.probes.upstream import COLLECTED
from harness.subjects import Located
from harness.targets.facts import TARGETS
from harness.targets.pool import Limits

_PROBE = "harness.probes.upstream"
_LIMITS = Limits(cell_s=600.0)
"""The first cell of a worker imports the subject's conftest, and with it half of vLLM."""


@dataclasses.dataclass(frozen=True)
class UpstreamCampaign(Campaign):
    """A campaign whose cells are no cells of the matrix: nothing is expected of them but that they pass."""

    def record(self, cell: Cell, seen: Observation, others: tuple[Seen, ...] = ()) -> Record:
        """Judge one observation, and say how to run this test again."""
        options = f"{self.located.subject.options} --target {cell.target.name}"
        record = judge(cell, seen, options, None, None, others=others)
        test = shlex.quote(cell.kernel.name)
        return record.model_copy(update={"reproduce": f"gfxloop run --upstream {test} {options}"})


def files_of(located_: Located, words: Sequence[str]) -> tuple[str, ...]:
    """The words, each ``FILE`` or ``FILE::TEST`` with a file of the subject's tree.

    Raises:
        UsageError: no such file in the subject.
        UnservableError: the subject has no tests at all.
    """
    if not (located_.tree / "tests").is_dir():
        hint = "The source distribution has them: --subject pypi:VERSION."
        raise UnservableError(located(located_.subject.spec, "the subject has no tests/", hint=hint))
    for word in words:
        path = PurePosixPath(word.partition("::")[0])
        inside = not path.is_absolute() and ".." not in path.parts
        if not inside or not (located_.tree / path).is_file():
            expected = "a file of the subject's tree like tests/kernels/quantization/test_rocm_fp8.py"
            raise UsageError(located("--upstream", "no such test file in the subject", got=word, expected=expected))
    return tuple(words)


def collect(campaign: Campaign, files: Sequence[str], targets: Sequence[str]) -> UpstreamCampaign:
    """Find the tests of the files on every target; a file that cannot be collected stays as one cell of its own.

    Raises:
        NothingSelectedError: the words mean no target.
    """
    engine = dataclasses.replace(campaign.engine, probe=_PROBE, limits=_LIMITS)
    every = [_cell(file, target_name, "file") for target_name in TARGETS for file in files]
    asked = select(every, targets=targets, all_targets=TARGETS.values()) if targets else tuple(every)
    if not asked:
        raise NothingSelectedError(located("--target", "no target", got=" ".join(targets)))
    found: dict[str, list[Cell]] = {}

    def on_answer(cell: Cell, seen: Observation) -> None:
        tests = [item.question for item in seen.evidence if item.answer == COLLECTED]
        found[cell.id] = [_cell(test, cell.target.name, "node") for test in tests] or [cell]

    engine.observe(asked, on_answer)
    cells = tuple(test for cell in asked for test in found[cell.id])
    return UpstreamCampaign(campaign.request, campaign.matrix, campaign.located, cells, campaign.notes, engine)


def _cell(name: str, target: str, key: str) -> Cell:
    """The cell of a file or of one of its tests."""
    family = PurePosixPath(name.partition("::")[0]).stem
    kernel = Kernel(name, Surface.UPSTREAM, family, {key: name})
    return Cell(Tier.ROUTE, TARGETS[target], "default", {}, kernel)
