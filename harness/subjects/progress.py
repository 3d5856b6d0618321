"""Progress of long work (a download, an unpacking, a run), shown on a stream that is never stdout.

In: counts of bytes or of other units. Out: a bar on a terminal, else a plain line about every quarter. Must not decide
anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar

BYTES = "bytes"
"""The unit that is shown as megabytes; every other is shown as it is."""
_MB = 1_000_000
_STEPS = 4


class Progress(Protocol):
    """Where long work reports to. One piece of work at a time: ``start``, ``advance`` ..., ``done``."""

    def start(self, total: int | None, what: str, unit: str = BYTES) -> None:
        """Begin: ``total`` bytes, or ``unit`` in the plural (None where nobody knows), of ``what``."""

    def advance(self, n: int) -> None:
        """``n`` more are done."""

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
    """One line at the start, then one for about every quarter."""

    def __init__(self, stream: TextIO) -> None:
        """Show on ``stream``."""
        self._stream = stream
        self._what = ""
        self._total: int | None = None
        self._seen = 0
        self._steps = 0

    def start(self, total: int | None, what: str, unit: str = BYTES) -> None:
        """See ``Progress``."""
        self._what, self._total, self._seen, self._steps = what, total, 0, 0
        size = f"{(total or 0) / _MB:.1f} MB" if unit == BYTES else f"{total} {unit}"
        self._say(f"{what} ({size})" if total else what)

    def advance(self, n: int) -> None:
        """See ``Progress``."""
        self._seen += n
        steps = min(self._seen * _STEPS // self._total, _STEPS) if self._total else 0
        if steps > self._steps:
            self._steps = steps
            self._say(f"{self._what}: {steps * 100 // _STEPS} %")

    def done(self) -> None:
        """See ``Progress``."""

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class BarProgress:
    """A rich bar with what is done, the speed of bytes and the time left; it disappears when the work is done."""

    def __init__(self, stream: TextIO) -> None:
        """Show on ``stream``."""
        self._stream = stream
        self._bar: RichBar | None = None

    def start(self, total: int | None, what: str, unit: str = BYTES) -> None:
        """See ``Progress``."""
        # Here, because rich costs 40 ms that a command without long work need not pay.
        from rich import progress as rich
        from rich.console import Console

        text = rich.TextColumn("{task.description}", markup=False)
        amount: tuple[rich.ProgressColumn, ...] = (rich.DownloadColumn(), rich.TransferSpeedColumn())
        if unit != BYTES:
            amount = (rich.MofNCompleteColumn(), rich.TextColumn(unit, markup=False))
        columns = (text, rich.BarColumn(), *amount, rich.TimeRemainingColumn())
        self._bar = rich.Progress(*columns, console=Console(file=self._stream), transient=True)
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
