"""Watching what the subject does to its process: the device, the environment, the vendor's packages.

In: the subject's tree and a journal. Out: a ``Deed`` in the journal for each thing done, with the subject's own line.
It must change no answer: every watched call goes on to what it would have reached, and what is done by anything but
the subject (this harness, a third-party package on its own) is not noted.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.model.deed import Deed
from harness.targets.drivers import Patch
from harness.targets.journal import Journal

SWITCHED = ("aiter",)
"""Packages of a vendor that vLLM can be told not to use (``VLLM_ROCM_USE_AITER``)."""

_OWN = "harness."
_BEHIND_ENVIRON = frozenset({"os", "collections.abc", "_collections_abc", "harness.targets.effects"})
"""Modules between a statement like ``os.environ[name] = value`` and the call that sets the variable."""

_PLAIN = re.compile(r"[\w.,:+-]*")
"""Values that say something; others are paths of this machine."""


class Watcher:
    """Notes the subject's deeds in a journal."""

    def __init__(self, tree: Path, journal: Journal) -> None:
        self._tree = f"{tree}{os.sep}"
        self._journal = journal

    def initialises(self, what: str) -> None:
        """Note a call that creates a context on a real device; of torch, the function that the subject called."""
        frames = _frames()
        for inner, frame in itertools.pairwise(frames):
            if self._is_subject(frame):
                home = str(inner.f_globals.get("__name__"))
                called = f"{home}.{inner.f_code.co_qualname}" if home.startswith("torch.") else what
                self._journal.deeds.initialised.append(self._deed(called, frame))
                return

    def install(self, patch: Patch) -> None:
        """Watch the environment and the imports of switched packages."""
        for name in ("putenv", "unsetenv"):
            patch.setattr(os, name, self._watched(getattr(os, name)))
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Finds nothing; notes an import of a switched package. A probe for one is no import."""
        if name.partition(".")[0] not in SWITCHED:
            return
        loads = False
        for frame in _frames():
            if frame.f_globals.get("__name__") not in ("importlib._bootstrap", "importlib", __name__):
                if loads and self._is_subject(frame):
                    self._journal.deeds.vendor.append(self._deed(name, frame))
                return
            loads = loads or frame.f_code.co_name == "_find_and_load"

    def _watched(self, real: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(real)
        def call(name: Any, *value: Any) -> None:
            setter = next((f for f in _frames() if f.f_globals.get("__name__") not in _BEHIND_ENVIRON), None)
            if setter is not None and self._is_subject(setter):
                words = [os.fsdecode(part) for part in (name, *value)]
                if value and not _PLAIN.fullmatch(words[1]):
                    words[1] = "..."
                what = "=".join(words) if value else f"no {words[0]}"
                self._journal.deeds.variables.append(self._deed(what, setter))
            real(name, *value)

        return call

    def _deed(self, what: str, frame: types.FrameType) -> Deed:
        file = frame.f_code.co_filename.removeprefix(self._tree)
        by = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        return Deed(what, by, importing=self._imports(frame))

    def _imports(self, frame: types.FrameType | None) -> bool:
        """Whether the subject's frame, or one of its callers up to this harness, is a module being imported."""
        while frame is not None and not str(frame.f_globals.get("__name__")).startswith(_OWN):
            if frame.f_code.co_name == "<module>" and self._is_subject(frame):
                return True
            frame = frame.f_back
        return False

    def _is_subject(self, frame: types.FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self._tree)


def _frames() -> list[types.FrameType]:
    """The frames above the caller's, innermost first."""
    frames = []
    frame = sys._getframe(1).f_back
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames
