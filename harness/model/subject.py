"""The subject: the vLLM tree under test and all that decides its routing, which together are its identity."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import Literal

from harness.model.record import Frozen

AiterMode = Literal["none", "stand-in", "tables", "path", "installed"]


class Aiter(Frozen):
    """Which AITER the subject sees."""

    spec: str
    """As given: ``stand-in``, ``tables:DIR``, ..."""
    mode: AiterMode
    digest: str = ""
    """blake2b of the tables, or of AITER's tree; empty for ``none`` and ``stand-in``."""


class Subject(Frozen):
    """Identity of a subject. Paths are not part of it (see ``harness.subjects.Located``)."""

    spec: str
    """As given: ``pypi:0.33.0``, ``path:DIR``, ``git:REPO@REF``, ``installed``."""
    version: str
    """vLLM's version as its metadata or tree tells it; ``unknown`` where it does not."""
    digest: str
    """blake2b of the tree's own files that can decide routing (see ``harness.subjects.identity``)."""
    aiter: Aiter
    env: dict[str, str] = {}
    """Variables of ``--env``, set on top of each environment profile."""
    packages: dict[str, bool] = {}
    """Words of ``--packages``: optional package -> taken as present."""

    @property
    def identity(self) -> str:
        """Short stable digest over everything but the spelling of the spec."""
        body = self.model_dump(mode="json", exclude={"spec"})
        body["aiter"].pop("spec")
        return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def options(self) -> str:
        """The command-line options that name this subject again."""
        words = ["--subject", self.spec, "--aiter", self.aiter.spec]
        for key, value in sorted(self.env.items()):
            words += ["--env", f"{key}={value}"]
        if self.packages:
            words += ["--packages", ",".join(("+" if on else "-") + name for name, on in sorted(self.packages.items()))]
        return shlex.join(words)
