"""The clone's own folders in a clone or an editable install, the bundled ones in a wheel."""

from __future__ import annotations

from pathlib import Path

from harness import bundled

ROOT = Path(__file__).parents[1]


def test_a_clone_uses_its_own_folders() -> None:
    assert bundled.suites_dir() == ROOT / "suites"
    assert bundled.fixtures_dir() == ROOT / "fixtures"
    assert bundled.matrix_path() == ROOT / "matrix.yaml"
    assert bundled.matrix_path().is_file()


def test_a_package_with_bundled_files_uses_them_and_not_what_lies_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "harness"
    (package / "_bundled").mkdir(parents=True)
    (tmp_path / "site-packages" / "suites").mkdir()
    assert bundled._home(package) == package / "_bundled"


def test_a_package_without_bundled_files_uses_what_lies_beside_it(tmp_path: Path) -> None:
    assert bundled._home(tmp_path / "harness") == tmp_path
