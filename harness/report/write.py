"""Write the reports of a run or of a comparison as files.

In: a run or a comparison and a folder. Out: the path of the page that a person reads first. Files are replaced whole.
"""

from __future__ import annotations

from pathlib import Path

from harness.model.errors import RunDirectoryError, located
from harness.model.run import Comparison, Run
from harness.records.atomic import write_atomically
from harness.report.changes import summarise_comparison
from harness.report.junit import junit
from harness.report.machine import as_text, check_json, compare_json
from harness.report.markdown import markdown
from harness.report.markdown_compare import markdown_comparison
from harness.report.summary import summarise


def write_reports(run: Run, directory: Path) -> Path:
    """Write ``check.json``, ``junit.xml`` and ``report.md`` beside the records.

    Returns:
        The path of ``report.md``, which is written last: when it is there, the others are.

    Raises:
        RunDirectoryError: a file cannot be written.
    """
    contents = {
        "check.json": as_text(check_json(run)),
        "junit.xml": junit(run),
        "report.md": markdown(summarise(run)),
    }
    return _write(contents, directory)


def write_comparison(comparison: Comparison, directory: Path) -> Path:
    """Write ``compare.json`` and ``compare.md``.

    Returns:
        The path of ``compare.md``.

    Raises:
        RunDirectoryError: a file cannot be written.
    """
    contents = {
        "compare.json": as_text(compare_json(comparison)),
        "compare.md": markdown_comparison(summarise_comparison(comparison)),
    }
    return _write(contents, directory)


def _write(contents: dict[str, str], directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot be made: {error.strerror or error}"
        raise RunDirectoryError(located(str(directory), what, hint="Choose another folder.")) from error
    for name, text in contents.items():
        write_atomically(directory / name, text)
    return directory / name
