"""Progress of long work (a download, an unpacking), shown on a stream that is never stdout.

In: byte counts. Out: a bar on a terminal, else a plain line about every tenth. Must not decide anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar

_MB = 1_000_000


class Progress(Protocol):
    """Where long work reports to. One piece of work at a time: ``start``, ``advance`` ..., ``done``."""

    def start(self, total: int | None, what: str) -> None:
        """Begin: ``total`` bytes (None where nobody knows) of ``what``."""

    def advance(self, n: int) -> None:
        """``n`` more bytes are done."""

    def done(self) -> None:
        """The work ended, well or badly."""


@contextmanager
def shown(progress: Progress, total: int | None, what: str) -> Iterator[None]:
    """``start`` before the block and ``done`` after it, however it ends."""
    progress.start(total, what)
    try:
        yield
    finally:
        progress.done()


def progress_on(stream: TextIO) -> Progress:
    """A bar where ``stream`` (the caller's stderr) is a terminal, plain lines elsewhere (a CI log)."""
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


class LineProgress:
    """One line at the start, then one for about every tenth."""

    def __init__(self, stream: TextIO) -> None:
        """Show on ``stream``."""
        self._stream = stream
        self._what = ""
        self._total: int | None = None
        self._seen = 0
        self._tenths = 0

    def start(self, total: int | None, what: str) -> None:
        """See ``Progress``."""
        self._what, self._total, self._seen, self._tenths = what, total, 0, 0
        self._say(f"{what} ({total / _MB:.1f} MB)" if total else what)

    def advance(self, n: int) -> None:
        """See ``Progress``."""
        self._seen += n
        tenths = min(self._seen * 10 // self._total, 10) if self._total else 0
        if tenths > self._tenths:
            self._tenths = tenths
            self._say(f"{self._what}: {tenths * 10} %")

    def done(self) -> None:
        """See ``Progress``."""

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class BarProgress:
    """A rich bar with speed and time left; it disappears when the work is done."""

    def __init__(self, stream: TextIO) -> None:
        """Show on ``stream``."""
        self._stream = stream
        self._bar: RichBar | None = None

    def start(self, total: int | None, what: str) -> None:
        """See ``Progress``."""
        # Here, because rich costs 40 ms that a command without long work need not pay.
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as RichBar

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._bar = RichBar(*columns, console=Console(file=self._stream), transient=True)
        self._bar.add_task(what, total=total)
        self._bar.start()

    def advance(self, n: int) -> None:
        """See ``Progress``."""
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], n)

    def done(self) -> None:
        """See ``Progress``."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
