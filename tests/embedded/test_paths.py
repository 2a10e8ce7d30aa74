"""Where the data of a project goes when nobody says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.embedded import default_data_dir
from rota.errors import EmbeddedError


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


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_what_another_user_has_put_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = tmp_path / ".rota"
    place.mkdir() if kind == "directory" else place.symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert default_data_dir() == place / "postgres"
    monkeypatch.setattr(os, "geteuid", lambda: 4001)
    if os.getuid() == 0:
        assert default_data_dir() == place / "postgres"
        os.lchown(place, 4000, 4000)
    with pytest.raises(EmbeddedError, match="belongs to user id"):
        default_data_dir()
    monkeypatch.setattr(os, "geteuid", lambda: place.lstat().st_uid)
    assert default_data_dir() == place / "postgres"
