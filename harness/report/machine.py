"""The machine contract: what ``gfxloop check --json`` and ``gfxloop compare --json`` print. Others script on it.

In: a run or a comparison. Out: plain JSON values. Stable within ``schema``: fields are added, never renamed, removed or
given another meaning without raising it.

``check``::

    schema    1
    gfxloop   version of the harness that ran it
    subject   spec, version, digest, aiter {spec, mode, digest}, env, packages, identity, options
    manifest  the run's manifest (see harness.model.run.Manifest)
    verdict   exit_code, reasons [str]
    summary   outcome -> count; every outcome is there, with 0 where it does not occur
    notes     what reading the run directory had to forgive [str]
    records   [record], in the order of their ids. Each has at least: id, platform, target, device, attachment, tier,
              surface, family, kernel, environment, model, tp, layer, shape [N, K], chosen, outcome, reason,
              candidates [name, accepted, reason, category], findings [rule, symbol, message],
              evidence [question, answer, source], expected, reproduce

``compare``::

    schema, gfxloop
    baseline, candidate   the two manifests, each with subject.identity
    differs   facts other than the subject's tree in which they differ [str]
    verdict   exit_code, reasons [str]
    summary   verdict -> count; every verdict is there
    rows      [id, verdict, rerouted (true where the decision differs, also on a fixed or regressed row), why,
              before (record or null), after (record or null)]
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from harness.compare.explain import is_rerouted
from harness.compare.gate import Gate, judge_check, judge_compare
from harness.model.record import SCHEMA, Outcome
from harness.model.run import Comparison, Manifest, Run, Verdict
from harness.report.text import natural


def check_json(run: Run) -> dict[str, Any]:
    """A run as the object that ``check --json`` prints."""
    records = sorted(run.records, key=lambda record: natural(record.id))
    manifest = _manifest(run.manifest)
    return {
        "schema": SCHEMA,
        "gfxloop": run.manifest.gfxloop,
        "subject": manifest["subject"],
        "manifest": manifest,
        "verdict": _verdict(judge_check(run.records, run.manifest.cells)),
        "summary": _counts(Outcome, (record.outcome for record in records)),
        "notes": list(run.notes),
        "records": [record.model_dump(mode="json") for record in records],
    }


def compare_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as the object that ``compare --json`` prints."""
    return {
        "schema": SCHEMA,
        "gfxloop": comparison.candidate.gfxloop,
        "baseline": _manifest(comparison.baseline),
        "candidate": _manifest(comparison.candidate),
        "differs": list(comparison.differs),
        "verdict": _verdict(judge_compare(comparison)),
        "summary": _counts(Verdict, (row.verdict for row in comparison.rows)),
        "rows": [
            {
                "id": row.id,
                "verdict": row.verdict.value,
                "rerouted": is_rerouted(row),
                "why": row.why,
                "before": row.before and row.before.model_dump(mode="json"),
                "after": row.after and row.after.model_dump(mode="json"),
            }
            for row in comparison.rows
        ],
    }


def as_text(body: dict[str, Any]) -> str:
    """The object as it is printed and written: one line, and ASCII, so that no encoding can break it."""
    return json.dumps(body) + "\n"


def _manifest(manifest: Manifest) -> dict[str, Any]:
    body = manifest.model_dump(mode="json")
    body["subject"] |= {"identity": manifest.subject.identity, "options": manifest.subject.options}
    return body


def _verdict(gate: Gate) -> dict[str, Any]:
    return {"exit_code": gate.exit_code, "reasons": list(gate.reasons)}


def _counts(members: type[StrEnum], values: Iterable[StrEnum]) -> dict[str, int]:
    counts = Counter(values)
    return {member.value: counts[member] for member in members}
