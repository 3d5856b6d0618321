"""The outcome of one cell, as it is written, read back and printed: the machine contract of ``--json``.

``Observation`` is what a worker saw (facts only); ``Record`` is an observation judged against the matrix.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from harness.model.cell import Surface, Tier
from harness.model.target import Attachment, Platform

SCHEMA = 1
"""Version of Record, Manifest and of the JSON that check prints. A reader accepts every version up to its own."""


class Frozen(BaseModel):
    """Base of everything that is read or written."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcome(StrEnum):
    """What became of a cell."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    EXPECTED_FAILURE = "expected_failure"
    UNEXPECTED_PASS = "unexpected_pass"
    UNSUPPORTED = "unsupported"
    NOT_RUN = "not_run"
    INFRA = "infra"
    INDETERMINATE = "indeterminate"

    @property
    def is_bad(self) -> bool:
        """True for the outcomes that make a run fail (exit code 1)."""
        return self in _BAD


_BAD = frozenset({Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.UNEXPECTED_PASS})


class Category(StrEnum):
    """The harness's own name for why a candidate was passed over, beside vLLM's words."""

    PLATFORM = "platform"
    ARCHITECTURE = "architecture"
    ENVIRONMENT = "environment"
    PACKAGE = "package"
    SHAPE = "shape"
    SCHEME = "scheme"
    TUNED_TABLE = "tuned_table"
    OPERATOR = "operator"
    OTHER = "other"


class Candidate(Frozen):
    """One kernel that vLLM's list offers, in the list's order."""

    name: str
    accepted: bool | None
    """None: not reached, because an earlier candidate was taken."""
    reason: str = ""
    """vLLM's own words, verbatim."""
    category: Category | None = None


class Evidence(Frozen):
    """One question that a predicate asked on the way to the decision, and its answer."""

    question: str
    """Function or lookup with its arguments: ``is_blockscale_bpreshuffle_tuned(n=7168, k=2048)``."""
    answer: str
    source: str = ""
    """Where the answer comes from: ``file.csv:12``, a simulated fact, or empty for vLLM's own code."""


class Finding(Frozen):
    """One rule that the record breaks."""

    rule: str
    """``expectation``, ``layout``, ``numerics``, ``clear_refusal``, ... or an invariant's name."""
    symbol: str
    """The vLLM symbol at fault, as precisely as it is known."""
    message: str


class Ended(StrEnum):
    """How the question ended in the worker."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """vLLM raised its own error that lists why no kernel fits."""
    RAISED = "raised"
    """Some other exception came out of vLLM."""
    UNSUPPORTED = "unsupported"
    """The release has no such entry point."""
    INDETERMINATE = "indeterminate"
    """The simulation cannot know."""
    DIED = "died"
    TIMED_OUT = "timed_out"


class Observation(Frozen):
    """What a worker saw for one cell. No time stamps, no paths of the machine: equal inputs give equal bytes."""

    ended: Ended
    chosen: str | None = None
    symbol: str = ""
    """The vLLM symbol that gave the answer: ``TorchFP8ScaledMMLinearKernel.is_supported``."""
    detail: str = ""
    """Refusal, exception, missing capability or missing fact, in words."""
    candidates: tuple[Candidate, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Faults that the probe itself can see (a private import, wrong numbers), whatever the matrix expects."""


class Record(Frozen):
    """The outcome of one cell."""

    id: str
    platform: Platform
    target: str
    """The gfx target (``gfx942``), or sm90, xpu, cpu."""
    device: str
    """The product (``MI300X``)."""
    attachment: Attachment
    tier: Tier
    surface: Surface
    family: str
    kernel: str
    environment: str
    model: str | None
    tp: int | None
    layer: str | None
    shape: tuple[int, int] | None
    """Weight [N, K] of one rank, in elements."""
    chosen: str | None
    outcome: Outcome
    reason: str
    """Why the outcome is what it is, one sentence or more; never empty."""
    candidates: tuple[Candidate, ...]
    evidence: tuple[Evidence, ...]
    findings: tuple[Finding, ...]
    expected: str | None
    """What matrix.yaml expects of the cell, in words, with the reason it gives."""
    reproduce: str
    """The one command that runs this cell again on the same subject."""
