"""Where a set of records lies: targets, environments, kernels, models and layers, listed compactly against a whole.

In: records. Out: phrases. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.model.record import Outcome, Record
from harness.model.target import Platform
from harness.report.text import listed, natural, one_line

_UNCHOSEN = {
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.UNSUPPORTED: "not in this release",
    Outcome.NOT_RUN: "not run",
    Outcome.INFRA: "not run",
    Outcome.INDETERMINATE: "indeterminate",
}


def target_of(record: Record) -> str:
    """Full name of the record's target: ``gfx942/MI300X``, or ``cpu``."""
    return record.target if record.target == record.device else f"{record.target}/{record.device}"


def model_of(record: Record) -> str | None:
    """The model with its tensor-parallel size, as in the cell's id."""
    return None if record.model is None else f"{record.model}.tp{record.tp}"


def label_of(record: Record) -> str:
    """The chosen kernel, or why there is none, in one or two words."""
    return record.chosen if record.chosen is not None else _UNCHOSEN.get(record.outcome, "no kernel")


_AXES: tuple[tuple[str, Callable[[Record], str | None]], ...] = (
    ("environment", lambda record: record.environment),
    ("kernel", lambda record: record.kernel),
    ("model", model_of),
    ("layer", lambda record: record.layer),
)


@dataclass(frozen=True)
class Universe:
    """All values of each axis, and all targets of each platform, in a set of records; computed once."""

    axes: Mapping[str, frozenset[str]]
    platforms: Mapping[Platform, frozenset[str]]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Universe:
        """The universe of a set of records."""
        axes = {
            name: frozenset(value for record in records if (value := axis(record)) is not None) for name, axis in _AXES
        }
        platforms: dict[Platform, set[str]] = {}
        for record in records:
            platforms.setdefault(record.platform, set()).add(target_of(record))
        return cls(axes, {platform: frozenset(names) for platform, names in platforms.items()})


def where(records: Sequence[Record], within: Universe) -> str:
    """How ``records`` lie within a universe along environment, kernel, model and layer; axes they fill are left out.

    Returns:
        ``environment aiter_on; layer o, q_b``, or an empty string where nothing sets them apart.
    """
    got = Universe.of(records).axes
    parts = []
    for name, values in got.items():
        if values and values != within.axes[name]:
            words = listed(map(one_line, values), [one_line(value) for value in within.axes[name]], limit=4)
            parts.append(f"{name} {words}")
    return "; ".join(parts)


def targets_listed(records: Sequence[Record], within: Universe) -> str:
    """The targets of ``records``; a platform of which ``within`` has no further target is named as a whole."""
    got = Universe.of(records).platforms
    if got == within.platforms and sum(map(len, got.values())) > 1:
        return "all targets"
    parts = []
    for platform in Platform:
        names, every = got.get(platform, frozenset()), within.platforms.get(platform, frozenset())
        if names:
            parts.append(f"all {platform.value}" if len(names) > 1 and names == every else _targets(names, every))
    return ", ".join(parts)


def _targets(names: frozenset[str], universe: frozenset[str]) -> str:
    """Targets of one platform; the product is named only where the records lack another product of the gfx target."""
    missing = {name.split("/")[0] for name in universe - names}
    short = {name if name.split("/")[0] in missing else name.split("/")[0] for name in names}
    return ", ".join(one_line(name) for name in sorted(short, key=natural))
