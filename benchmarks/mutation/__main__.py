"""``python -m benchmarks.mutation``: edit a copy of the subject once at a time, and see whether the harness tells.

An edit is detected by D1 (a finding that the unedited subject does not have) or D2 (``compare`` calls a cell something
other than unchanged). Only the surfaces that the edited file serves are asked. Prints one JSON line an edit, the
survivors and the rate; with ``--out`` a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.mutation.edits import Edit, edits
from harness.bundled import matrix_path
from harness.compare.compare import judge
from harness.model.record import Record
from harness.model.run import Verdict
from harness.probes.campaign import Campaign, Request, choose, open_campaign
from harness.probes.serves import surfaces_of
from harness.records.writer import utc_today
from harness.subjects import progress_on
from harness.targets.home import cache_folder

ROUTING = (
    "vllm/platforms/rocm.py",
    "vllm/_aiter_ops.py",
    "vllm/model_executor/kernels/linear/**/*.py",
    "vllm/model_executor/layers/fused_moe/oracle/*.py",
    "vllm/model_executor/layers/fused_moe/experts/*.py",
    "vllm/model_executor/layers/utils.py",
    "vllm/v1/attention/backends/**/*.py",
    "vllm/v1/attention/selector.py",
)
"""The files that route."""

FOREIGN = (
    "cutlass",
    "flashinfer",
    "marlin",
    "deep_gemm",
    "trtllm",
    "humming",
    "xpu",
    "cpu",
    "cuda",
    "flashmla",
    "flashattn_mla",
    "zentorch",
    "tokenspeed",
    "b12x",
    "cute_dsl",
    "dynamic_4bit",
    "hpc",
    "moonep",
    "machete",
    "allspark",
    "cutedsl",
)
"""Words in the names of files that serve another platform alone."""

TARGETS = (
    ("gfx942/MI300X",),
    ("gfx1100", "gfx950"),
    ("gfx1201", "gfx1250", "gfx90a", "gfx1151"),
    ("sm90", "cpu", "xpu"),
)
"""Asked in groups until one tells."""


def main() -> int:
    """Run the mutants and print what became of each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__)
    parser.add_argument("--subject", default="pypi:0.33.0")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON lines; edits that it has are not asked again")
    parser.add_argument("--shard", default="1/1", help="I/N: the I-th of N parts, for N processes at once")
    parser.add_argument("--control", action="store_true", help="edits that change nothing: none may be told")
    words = parser.parse_args()
    tree = _campaign(words.subject, ("cpu",), ("platform",)).located.tree
    part, parts = map(int, words.shard.split("/"))
    drawn = sample(tree, words.count, words.seed)
    chosen = (_unedited(drawn) if words.control else drawn)[part - 1 :: parts]
    done = _done(words.out)
    for number, (path, edit) in enumerate(chosen, 1):
        key = f"{path}:{edit.line}:{edit.kind}:{edit.replacement}"
        if key not in done:
            told = detect(tree, path, edit, words.subject)
            done[key] = {"key": key, "file": path, **asdict(edit), **told}
            if words.out:
                with words.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[key]) + "\n")
        print(f"{number}/{len(chosen)} {done[key]['by'] or 'SURVIVED':8} {key}  {done[key]['what'][:160]}", flush=True)
    seen = [done[f"{path}:{edit.line}:{edit.kind}:{edit.replacement}"] for path, edit in chosen]
    hits = sum(bool(one["by"]) for one in seen)
    name = "unedited_told" if words.control else "mutants_detected"
    print(json.dumps({"name": name, "ratio": hits / len(seen), "hit": hits, "of": len(seen)}))
    return 0


def sample(tree: Path, count: int, seed: int) -> list[tuple[str, Edit]]:
    """Edits drawn evenly from the files and the kinds of edit, by a seeded choice."""
    groups: dict[tuple[str, str], list[tuple[str, Edit]]] = defaultdict(list)
    for path in _files(tree):
        for edit in edits((tree / path).read_text(encoding="utf-8")):
            groups[path, edit.kind].append((path, edit))
    chance = random.Random(seed)
    drawn: list[tuple[str, Edit]] = []
    while groups and len(drawn) < count:
        for key in chance.sample(sorted(groups), len(groups)):
            members = groups[key]
            path, edit = members.pop(chance.randrange(len(members)))
            if edit.parses((tree / path).read_bytes()):
                drawn.append((path, edit))
            if not members:
                del groups[key]
    return drawn[:count]


def _unedited(drawn: list[tuple[str, Edit]]) -> list[tuple[str, Edit]]:
    """One edit without an effect for each set of surfaces: whatever is told of it is noise of the measurement."""
    one_each = {surfaces_of(path): (path, edit) for path, edit in reversed(drawn)}
    return [(path, replace(edit, kind="control", replacement=edit.original)) for path, edit in one_each.values()]


def _files(tree: Path) -> Iterator[str]:
    for pattern in ROUTING:
        for path in sorted(tree.glob(pattern)):
            if not any(word in path.relative_to(tree).as_posix() for word in FOREIGN):
                yield path.relative_to(tree).as_posix()


def detect(tree: Path, path: str, edit: Edit, subject: str) -> dict[str, str]:
    """Who tells the edit first: ``D1``, ``D2`` or nobody."""
    surfaces = tuple(sorted(surface.value for surface in surfaces_of(path)))
    with tempfile.TemporaryDirectory(prefix="gfxloop-mutant-") as scratch:
        copy = Path(scratch) / "subject"
        shutil.copytree(tree, copy, copy_function=os.link, ignore=shutil.ignore_patterns("tests", "docs"))
        edited = copy / path
        text = edited.read_bytes()
        edited.unlink()  # the copy is made of hard links
        edited.write_bytes(edit.apply(text))
        for group in TARGETS:
            before = _records(_campaign(subject, group, surfaces), cached=True)
            after = _records(_campaign(f"path:{copy}", group, surfaces), cached=False)
            told = _told(before, after)
            if told["by"]:
                return told
    return {"by": "", "what": f"surfaces {' '.join(surfaces)}"}


def _told(before: dict[str, Record], after: dict[str, Record]) -> dict[str, str]:
    for by in ("D1", "D2"):
        for key, record in after.items():
            new = {(f.rule, f.symbol) for f in record.findings} - {(f.rule, f.symbol) for f in before[key].findings}
            verdict, why = judge(before[key], record)
            if by == "D1" and new:
                return {"by": by, "what": f"{key}: {sorted(new)}"}
            if by == "D2" and verdict not in (Verdict.UNCHANGED, Verdict.NOT_COMPARABLE, Verdict.KNOWN):
                return {"by": by, "what": f"{key}: {verdict}: {why}"}
    return {"by": "", "what": ""}


def _campaign(subject: str, targets: tuple[str, ...], surfaces: tuple[str, ...]) -> Campaign:
    request = Request(matrix=matrix_path(), subject=subject, targets=targets, kernels=surfaces)
    return open_campaign(request, choose(request, utc_today()), cache=cache_folder(), progress=progress_on(sys.stderr))


def _records(campaign: Campaign, *, cached: bool) -> dict[str, Record]:
    if not cached:
        campaign = replace(campaign, engine=replace(campaign.engine, cache=None))
    return {record.id: record for record in campaign.run(lambda _record: None)}


def _done(out: Path | None) -> dict[str, dict[str, str]]:
    if out is None or not out.exists():
        return {}
    lines = (json.loads(line) for line in out.read_text(encoding="utf-8").splitlines())
    return {line["key"]: line for line in lines}


if __name__ == "__main__":
    sys.exit(main())
