"""Where gfxloop keeps what it fetched and saw. Out: a path; nothing is made here."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """Folder for subjects and observations: ``GFXLOOP_CACHE``, else the user's cache folder."""
    return Path(os.environ.get("GFXLOOP_CACHE") or platformdirs.user_cache_dir("gfxloop"))
