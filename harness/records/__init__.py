"""The run directory, the only store: ``manifest.json`` and append-only ``records-<shard>.<identity>.jsonl`` files.

Written crash-safe by ``RunWriter``, read back by ``read_run``, merged by copying the shards of runs with the same
identity into one folder.
"""

from harness.records.atomic import write_atomically
from harness.records.layout import run_identity
from harness.records.reader import read_run
from harness.records.writer import RunWriter

__all__ = ["RunWriter", "read_run", "run_identity", "write_atomically"]
