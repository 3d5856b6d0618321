from __future__ import annotations

import io

import pytest

from harness.subjects.progress import BarProgress, LineProgress, progress_on, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_and_a_log_gets_lines() -> None:
    assert isinstance(progress_on(Terminal()), BarProgress)
    assert isinstance(progress_on(io.StringIO()), LineProgress)


def test_a_log_gets_one_line_a_quarter_however_small_the_steps() -> None:
    stream = io.StringIO()
    progress = progress_on(stream)
    with shown(progress, 2_000_000, "work"):
        for _ in range(1000):
            progress.advance(2_000)
    assert stream.getvalue().splitlines() == ["work (2.0 MB)", "work: 25 %", "work: 50 %", "work: 75 %", "work: 100 %"]


def test_what_is_not_bytes_is_shown_in_its_own_unit() -> None:
    log, terminal = io.StringIO(), Terminal()
    for progress in (LineProgress(log), BarProgress(terminal)):
        progress.start(8938, "asking", "cells")
        progress.advance(8938)
        progress.done()
    assert log.getvalue().splitlines()[0] == "asking (8938 cells)"
    assert "8938/8938" in terminal.getvalue()
    assert " cells " in terminal.getvalue()
    assert "MB" not in log.getvalue() + terminal.getvalue()


def test_a_bar_of_bytes_shows_megabytes() -> None:
    terminal = Terminal()
    with shown(BarProgress(terminal), 2_000_000, "work"):
        pass
    assert "2.0 MB" in terminal.getvalue()


@pytest.mark.parametrize("total", [None, 0])
def test_a_log_gets_one_line_where_the_total_is_unknown_or_nothing(total: int | None) -> None:
    stream = io.StringIO()
    progress = progress_on(stream)
    with shown(progress, total, "work"):
        progress.advance(5)
    assert stream.getvalue() == "work\n"


def test_a_second_piece_of_work_starts_from_nothing() -> None:
    stream = io.StringIO()
    progress = progress_on(stream)
    for _ in range(2):
        with shown(progress, 10, "work"):
            progress.advance(5)
    assert stream.getvalue().count("work: 50 %") == 2


def test_more_than_the_total_is_all_of_it() -> None:
    stream = io.StringIO()
    progress = progress_on(stream)
    with shown(progress, 10, "work"):
        progress.advance(25)
    assert stream.getvalue().splitlines()[-1] == "work: 100 %"


def test_a_bar_shows_the_words_as_they_are_and_ends_when_the_work_fails() -> None:
    stream = Terminal()
    progress = BarProgress(stream)

    def fail() -> None:
        with shown(progress, 10, "[red]vllm"):
            progress.advance(5)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "[red]vllm" in stream.getvalue()
    progress.advance(1)  # after the end: nothing to show it on
    progress.done()


def test_nothing_is_ever_written_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    for stream in (Terminal(), io.StringIO()):
        progress = progress_on(stream)
        with shown(progress, 10, "work"):
            progress.advance(10)
    assert capsys.readouterr().out == ""
