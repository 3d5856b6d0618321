"""Write one whole file so that a reader, or a kill at any moment, sees the former content or the new one.

In: a path and its text. Out: the file. It never leaves a half-written file under the final name.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harness.model.errors import RunDirectoryError, located

TEMPORARY = ".writing-"
"""Start of the name of a file that is still being written; what a kill leaves behind carries it and is ignored."""


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` (UTF-8): a temporary file beside it, fsync, rename, fsync of the folder.

    Raises:
        RunDirectoryError: the file system refuses.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(text.encode("utf-8", "backslashreplace"))
                stream.flush()
                os.fsync(stream.fileno())
            # mkstemp makes the file private; a report is read by other users of a CI machine.
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        hint = "Free some space or choose another folder."
        raise RunDirectoryError(
            located(str(path), f"cannot be written: {error.strerror or error}", hint=hint)
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
