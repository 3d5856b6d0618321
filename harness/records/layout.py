"""Names inside a run directory, and what makes two runs parts of one run.

Pure: no I/O. A shard's name carries the identity of its run, because a record line does not: so a shard that was copied
into the wrong folder, or was written by another version, is found without opening it.
"""

from __future__ import annotations

import hashlib
import json
import re

from harness.model.errors import RunDirectoryError, located
from harness.model.run import Manifest

MANIFEST = "manifest.json"
SHARDS = "records-*.jsonl"
_SHARD_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SHARD_NAME = re.compile(r"records-[A-Za-z0-9_-]+\.(?P<identity>[0-9a-f]{16})\.jsonl")


def run_identity(manifest: Manifest) -> str:
    """Digest of all that must be equal for two runs to be parts of one: 16 hexadecimal digits.

    The command, the times, the number of cells, the targets and the tiers are left out: parts of a run differ in them.
    """
    facts = [
        manifest.schema_version,
        manifest.gfxloop,
        manifest.harness_digest,
        manifest.subject.identity,
        manifest.matrix_digest,
        sorted(manifest.versions.items()),
    ]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()


def shard_name(shard: str, identity: str) -> str:
    """File name of a shard.

    Raises:
        RunDirectoryError: the shard's id has characters that do not belong in a file name.
    """
    if not _SHARD_ID.fullmatch(shard):
        raise RunDirectoryError(located("shard", "not a shard id", got=shard, expected="letters, digits, _ and -"))
    return f"records-{shard}.{identity}.jsonl"


def identity_in(name: str) -> str | None:
    """The run identity that a shard's file name carries; None for a name given by hand, which is taken on trust."""
    found = _SHARD_NAME.fullmatch(name)
    return found["identity"] if found else None
