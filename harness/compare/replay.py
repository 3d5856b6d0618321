"""Whether the records of a bad and a fixed release show a fault that was released between them.

In: an entry of the list and the records of both releases, or all records of one. Out: what caught the fault, and what
was flagged that no entry explains. Pure; nothing here knows an entry or a release by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.version import Version

from harness.compare.compare import judge
from harness.compare.explain import is_rerouted, rules, works
from harness.model.cell import Surface
from harness.model.record import Finding, Outcome, Record
from harness.model.replay import Alarm, Caught, Names, ReleaseAlarms, Replayed, ReplayEntry
from harness.model.run import Row, Verdict
from harness.model.target import Platform
from harness.probes.serves import surfaces_of

_EXPECTATION = "expectation"
_DIFFERENT = frozenset({Verdict.REGRESSED, Verdict.FIXED, Verdict.REROUTED, Verdict.IMPROVED})
_RANK = {names: rank for rank, names in enumerate(Names)}
_TARGET = re.compile(rf"\b(gfx[0-9a-f]+|sm\d+|{'|'.join(Platform)})\b", re.IGNORECASE)
_SYMBOL = re.compile(r"[\w.]+")


@dataclass(frozen=True)
class Scope:
    """Where a fault can show."""

    surfaces: frozenset[Surface]
    targets: frozenset[str]
    """gfx targets and platforms; empty for all."""

    @classmethod
    def of(cls, entry: ReplayEntry) -> Scope:
        """The surfaces that the entry's file serves, on the targets that its free text names."""
        words = (word.lower() for word in _TARGET.findall(entry.targets))
        return cls(surfaces_of(entry.file), frozenset(words))

    def takes(self, surface: Surface, target: str, platform: Platform) -> bool:
        """Whether a cell of this surface on this target is asked."""
        on_target = not self.targets or target in self.targets or platform.value in self.targets
        return surface in self.surfaces and on_target


@dataclass(frozen=True)
class _Hit:
    """One piece of evidence. Sorted, the best comes first."""

    names: Names
    about: bool
    """Whether it has the file's own name in its words: ``mxfp8`` for ``oracle/mxfp8.py``."""
    by: Caught | None
    record: Record
    words: str
    flag: tuple[str, str, str] = ("", "", "")
    """Rule, symbol and kernel of a finding."""

    @property
    def order(self) -> tuple[int, bool, bool, str]:
        return _RANK[self.names], not self.about, self.by is Caught.EXPECTATION, self.record.id


def replayed(entry: ReplayEntry, bad: Mapping[str, Record], fixed: Mapping[str, Record]) -> Replayed:
    """How the harness does on one entry.

    Args:
        entry: the fault.
        bad: records of the bad release, by id; those outside the entry's scope do not count.
        fixed: records of the fixed release.
    """
    scope = Scope.of(entry)
    before = _within(scope, bad)
    pairs = [(record, fixed[id_]) for id_, record in before.items() if id_ in fixed]
    flagged = sorted(_flagged(entry, pairs), key=lambda hit: hit.order)
    different = sorted(_different(entry, pairs), key=lambda hit: hit.order)
    d1, d2 = (hits[0] if hits else None for hits in (flagged, different))
    alarms = {hit.flag for hit in flagged if d1 is not None and hit.names is d1.names}
    still = {flag for record in _within(scope, fixed).values() if record.outcome.is_bad for flag in _flags(record)}
    shown = d1 or d2
    return Replayed(
        name=entry.name,
        id=entry.id,
        bad=entry.bad_version,
        fixed=entry.fixed_version,
        surfaces=tuple(sorted(scope.surfaces)),
        cells=len(pairs),
        d1=d1 is not None,
        d1_by=d1.by if d1 else None,
        d1_names=d1.names if d1 else None,
        d2=d2 is not None,
        d2_names=d2.names if d2 else None,
        false_alarm=not alarms.isdisjoint(still),
        evidence=f"{shown.record.id}: {shown.words}" if shown else _nothing(scope, before, pairs),
        reproduce=shown.record.reproduce if shown else "",
    )


def alarms_of(release: str, records: Sequence[Record], entries: Iterable[ReplayEntry]) -> ReleaseAlarms:
    """The findings of a full check that no entry explains.

    An entry explains a finding when the release has its fault (bad <= release < fixed) and the finding is on a surface
    of its file and names its symbol.
    """
    there = [e for e in entries if Version(e.bad_version) <= Version(release) < Version(e.fixed_version)]
    found: dict[tuple[str, str, Surface], list[tuple[Record, Finding]]] = {}
    for record in records:
        for finding in record.findings if record.outcome.is_bad else ():
            found.setdefault((finding.rule, finding.symbol, record.surface), []).append((record, finding))
    left = {
        key: members
        for key, members in found.items()
        if not all(any(_explains(entry, *member) for entry in there) for member in members)
    }
    counts = Counter((record.surface, record.outcome) for record in records)
    surfaces = dict.fromkeys(surface for surface, _ in counts)
    return ReleaseAlarms(
        release=release,
        cells=len(records),
        outcomes={one: {outcome: n for (surface, outcome), n in counts.items() if surface is one} for one in surfaces},
        findings=len(found),
        explained=len(found) - len(left),
        alarms=tuple(_alarm(key, members) for key, members in sorted(left.items())),
    )


def _within(scope: Scope, records: Mapping[str, Record]) -> dict[str, Record]:
    return {id_: one for id_, one in records.items() if scope.takes(one.surface, one.target, one.platform)}


def _flagged(entry: ReplayEntry, pairs: Iterable[tuple[Record, Record]]) -> Iterator[_Hit]:
    """Findings of the bad release whose rule the fixed release keeps at the same cell."""
    for before, after in pairs:
        # Undecided or crashed, the fixed release has not been shown to be right. What it no longer has, it has mended.
        if not before.outcome.is_bad or not (works(after) or after.outcome in (Outcome.FAILED, Outcome.UNSUPPORTED)):
            continue
        kept = {finding.rule for finding in after.findings}
        for finding in before.findings:
            if finding.rule not in kept:
                by = Caught.EXPECTATION if finding.rule == _EXPECTATION else Caught.INVARIANT
                text = _text_of(before, finding)
                words = f"{finding.rule} at {finding.symbol}: {finding.message}"
                flag = (finding.rule, finding.symbol, before.kernel)
                yield _Hit(_names(entry, text), _about(entry, text), by, before, words, flag)


def _flags(record: Record) -> Iterator[tuple[str, str, str]]:
    return ((rule, symbol, record.kernel) for rule, symbol in rules(record))


def _different(entry: ReplayEntry, pairs: Iterable[tuple[Record, Record]]) -> Iterator[_Hit]:
    """Cells that a comparison shows as different."""
    for before, after in pairs:
        verdict, why = judge(before, after)
        row = Row(id=before.id, verdict=verdict, why=why, before=before, after=after)
        if verdict in _DIFFERENT or (verdict is Verdict.KNOWN and is_rerouted(row)):
            text = f"{_text_of(before)} {_text_of(after)} {why}"
            yield _Hit(_names(entry, text), _about(entry, text), None, before, f"{verdict}: {why}")


def _text_of(record: Record, finding: Finding | None = None) -> str:
    """The words of a record that can name a symbol, with those of one finding or of all."""
    findings = record.findings if finding is None else (finding,)
    parts = [record.kernel, record.chosen or ""]
    parts += [f"{one.symbol} {one.message}" for one in findings]
    parts += [candidate.name for candidate in record.candidates]
    parts += [item.question for item in record.evidence]
    return " ".join(parts)


def _names(entry: ReplayEntry, text: str) -> Names:
    words = set(re.findall(r"\w+", text))
    dotted = [symbol.strip(".").split(".") for symbol in _SYMBOL.findall(entry.symbol)]
    if any(parts[-1] in words for parts in dotted):
        return Names.SYMBOL
    return Names.CLASS if any(not words.isdisjoint(parts[:-1]) for parts in dotted) else Names.SURFACE


def _about(entry: ReplayEntry, text: str) -> bool:
    return PurePosixPath(entry.file).stem in text


def _nothing(scope: Scope, before: Mapping[str, Record], pairs: Sequence[tuple[Record, Record]]) -> str:
    """Why nothing was caught."""
    if not scope.surfaces:
        return "no surface looks at the file"
    if not pairs:
        return f"no cell of the matrix asks {', '.join(sorted(scope.surfaces))} on these targets of both releases"
    counts = Counter(record.outcome.value for record in before.values() if not works(record))
    aside = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    equal = f"{len(pairs)} cells asked, none flagged and none different"
    return equal + (f" (of the bad release {aside})" if aside else "")


def _explains(entry: ReplayEntry, record: Record, finding: Finding) -> bool:
    names = _names(entry, _text_of(record, finding))
    return record.surface in surfaces_of(entry.file) and names is not Names.SURFACE


def _alarm(key: tuple[str, str, Surface], members: Sequence[tuple[Record, Finding]]) -> Alarm:
    rule, symbol, surface = key
    record, finding = min(members, key=lambda member: member[0].id)
    targets = sorted({f"{one.target}/{one.device}" if one.device != one.target else one.target for one, _ in members})
    return Alarm(
        rule=rule,
        symbol=symbol,
        surface=surface,
        targets=tuple(targets),
        cells=len(members),
        message=finding.message,
        reproduce=record.reproduce,
    )
