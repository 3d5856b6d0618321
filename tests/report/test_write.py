from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from harness.compare.compare import compare
from harness.model.errors import RunDirectoryError
from harness.records import RunWriter, read_run
from harness.report.write import write_comparison, write_reports


def test_reports_lie_beside_the_records_and_do_not_disturb_them(samples: ModuleType, tmp_path: Path) -> None:
    run = samples.realistic(faulty=True, models=1)
    with RunWriter(tmp_path, run.manifest, "a") as writer:
        for record in run.records:
            writer.write(record)
    back = read_run(tmp_path)
    assert write_reports(back, tmp_path) == tmp_path / "report.md"
    assert (tmp_path / "report.md").read_text().startswith("# gfxloop: FAILED")
    assert len(json.loads((tmp_path / "check.json").read_text())["records"]) == len(run.records)
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().get("tests") == str(len(run.records))
    assert read_run(tmp_path) == back
    assert not list(tmp_path.glob(".*"))


def test_a_comparison_makes_its_folder(samples: ModuleType, tmp_path: Path) -> None:
    comparison = compare(samples.realistic(faulty=True, models=1), samples.realistic(faulty=False, models=1))
    assert write_comparison(comparison, tmp_path / "a" / "b") == tmp_path / "a" / "b" / "compare.md"
    assert json.loads((tmp_path / "a" / "b" / "compare.json").read_text())["schema"] == 1


def test_a_file_in_place_of_the_folder_is_an_error(samples: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match=r"file: cannot be made: File exists\. Choose another folder\."):
        write_reports(samples.run(), tmp_path / "file")
