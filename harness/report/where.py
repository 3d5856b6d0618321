"""Where a set of records lies: targets, environments, kernels, models and layers, listed compactly against a whole.

In: records. Out: phrases. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.model.cell import Surface
from harness.model.record import Outcome, Record
from harness.model.target import Attachment, Platform
from harness.report.text import listed, natural, one_line

_UNCHOSEN = {
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.UNSUPPORTED: "not in this release",
    Outcome.NOT_RUN: "not run",
    Outcome.INFRA: "not run",
    Outcome.INDETERMINATE: "indeterminate",
}

_REFUSED = {Surface.LINEAR: "no kernel", Surface.MOE: "no backend", Surface.ATTENTION: "no backend"}
"""What a refusal leaves, where the answer would be a choice."""


def target_of(record: Record) -> str:
    """Full name of the record's target: ``gfx942/MI300X``, or ``cpu``."""
    return record.target if record.target == record.device else f"{record.target}/{record.device}"


def model_of(record: Record) -> str | None:
    """The model with its tensor-parallel size, as in the cell's id."""
    return None if record.model is None else f"{record.model}.tp{record.tp}"


def label_of(record: Record) -> str:
    """The chosen kernel, or why there is none, in one or two words."""
    if record.chosen is not None:
        return record.chosen
    if record.surface is Surface.UPSTREAM and record.outcome is Outcome.UNSUPPORTED:
        return "left out"
    return _UNCHOSEN.get(record.outcome, _REFUSED.get(record.surface, "no answer"))


def by_platform(record: Record) -> tuple[object, ...]:
    """Sort key of a record's target: platforms in the order of ``Platform``, then the name."""
    return tuple(Platform).index(record.platform), natural(target_of(record))


def attachments(records: Iterable[Record]) -> dict[Attachment, str]:
    """The targets of each attachment by their full names, ``none`` where there are none."""
    found: dict[Attachment, dict[str, None]] = {Attachment.ATTACHED: {}, Attachment.SIMULATED: {}}
    first = {(target_of(record), record.attachment): record for record in records}
    for record in sorted(first.values(), key=by_platform):
        found[record.attachment][one_line(target_of(record))] = None
    return {kind: ", ".join(names) or "none" for kind, names in found.items()}


_AXES: Mapping[str, Callable[[Record], str | None]] = {
    "environment": lambda record: record.environment,
    "kernel": lambda record: record.kernel,
    "model": model_of,
    "layer": lambda record: record.layer,
}


@dataclass(frozen=True)
class Universe:
    """All targets of each platform in a set of records; computed once."""

    platforms: Mapping[Platform, frozenset[str]]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Universe:
        """The universe of a set of records."""
        platforms: dict[Platform, set[str]] = {}
        for record in records:
            platforms.setdefault(record.platform, set()).add(target_of(record))
        return cls({platform: frozenset(names) for platform, names in platforms.items()})


@dataclass(frozen=True)
class Population:
    """All records of a run or of a comparison: what sets of them are placed in."""

    whole: Universe
    groups: Mapping[tuple[object, ...], Sequence[Record]]
    """Records by surface, family and target."""

    @classmethod
    def of(cls, records: Sequence[Record]) -> Population:
        """The population of a set of records."""
        groups: dict[tuple[object, ...], list[Record]] = {}
        for record in records:
            groups.setdefault(_group_of(record), []).append(record)
        return cls(Universe.of(records), groups)

    def placed(self, records: Sequence[Record]) -> tuple[str, str]:
        """The targets of ``records`` and, as ``where`` tells it, which of those targets' cells they are.

        Cells of another surface or family, or of a target that has none of ``records``, do not count: to name what
        they alone have would say nothing.
        """
        groups = dict.fromkeys(map(_group_of, records))
        peers = [record for group in groups for record in self.groups[group]]
        return targets_listed(records, self.whole), where(records, peers)


def _group_of(record: Record) -> tuple[object, ...]:
    return record.surface, record.family, target_of(record)


def where(records: Sequence[Record], among: Sequence[Record]) -> str:
    """How ``records`` lie among others along environment, kernel, model and layer.

    An axis is left out where it does not set them apart, or where the others do already.

    Returns:
        ``environment aiter_on; layer o, q_b``, or an empty string where nothing sets them apart.
    """
    every = {axis: {value for record in among if (value := axis(record))} for axis in _AXES.values()}
    got = {axis: {value for record in records if (value := axis(record))} for axis in every}
    told = {axis: values for axis, values in got.items() if values and values != every[axis]}
    for axis in reversed(tuple(told)):
        others = {other: values for other, values in told.items() if other is not axis}
        left = (record for record in among if all(other(record) in values for other, values in others.items()))
        if all(axis(record) in told[axis] for record in left):
            told = others
    return "; ".join(
        f"{name} {listed(map(one_line, told[axis]), [one_line(value) for value in every[axis]], limit=4)}"
        for name, axis in _AXES.items()
        if axis in told
    )


def targets_listed(records: Sequence[Record], within: Universe) -> str:
    """The targets of ``records``; a platform of which ``within`` has no further target is named as a whole."""
    got = Universe.of(records).platforms
    if got == within.platforms and len(got) > 1:
        return "all targets"
    parts = []
    for platform in Platform:
        names, every = got.get(platform, frozenset()), within.platforms.get(platform, frozenset())
        if names:
            parts.append(_targets(platform, names, every))
    return ", ".join(parts)


def _targets(platform: Platform, names: frozenset[str], every: frozenset[str]) -> str:
    """Targets of one platform: all of them, all but one or two, or each by name."""
    if len(names) > 1 and names == every:
        return f"all {platform.value}"
    named, missing = _short(names, every), _short(every - names, every)
    if len(missing) <= 2 and len(named) >= 4:
        return f"all {platform.value} but {' and '.join(missing)}"
    return ", ".join(named)


def _short(names: frozenset[str], every: frozenset[str]) -> list[str]:
    """Names in order; the product is named only where ``names`` lacks another product of the gfx target."""
    missing = {name.split("/")[0] for name in every - names}
    short = {name if name.split("/")[0] in missing else name.split("/")[0] for name in names}
    return [one_line(name) for name in sorted(short, key=natural)]
