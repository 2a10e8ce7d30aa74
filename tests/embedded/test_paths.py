"""Where the data of a project goes when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.embedded import default_data_dir


@pytest.mark.parametrize("mark", ["rota.toml", "pyproject.toml", ".git"])
def test_the_nearest_project_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    (tmp_path / ".git").touch()
    (tmp_path / "project" / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "project" / mark).touch()
    monkeypatch.chdir(tmp_path / "project" / "deep" / "deeper")
    assert default_data_dir() == tmp_path / "project" / ".rota" / "postgres"


def test_outside_of_a_project_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_data_dir() == tmp_path / ".rota" / "postgres"


def test_a_directory_that_everyone_may_write_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user may have made its project files, and the directory of the data."""
    (tmp_path / "here").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".rota").mkdir(mode=0o777)
    tmp_path.chmod(0o1777)
    monkeypatch.chdir(tmp_path / "here")
    assert default_data_dir() == tmp_path / "here" / ".rota" / "postgres"
