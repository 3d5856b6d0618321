"""Run the benchmarks and print one JSON line for each: ``{"name": ..., "ratio": ..., "limit": ..., "ok": ...}``.

A ratio compares two things that this run measured on this machine, one after the other. Exit code 1 when one is above
its limit. ``python -m benchmarks NAME...`` runs some of them.
"""

from __future__ import annotations

import json
import sys

from benchmarks.routing import BENCHMARKS


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"benchmarks: no {', '.join(unknown)}. Known: {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    clean = True
    for name in names or list(BENCHMARKS):
        limit, run = BENCHMARKS[name]
        ours_s, theirs_s, what = run()
        ratio = ours_s / theirs_s
        clean = clean and ratio <= limit
        line = {
            "name": name,
            "ratio": round(ratio, 3),
            "limit": limit,
            "ok": ratio <= limit,
            "of": what,
            "seconds": [round(ours_s, 2), round(theirs_s, 2)],
        }
        print(json.dumps(line), flush=True)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
