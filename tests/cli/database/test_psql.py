from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli


def rota(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """As a program: psql writes to its own standard output."""
    command = [sys.executable, "-m", "rota", "psql", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | env)


def test_what_follows_is_passed_on(database_url: str, here: Path) -> None:
    found = rota(
        "-X", "-At", "-c", "SELECT count(*) FROM rota.runs", ROTA_DATABASE_URL=database_url
    )
    assert (found.returncode, found.stdout) == (0, "0\n"), found.stderr
    wrong = rota("-X", "-v", "ON_ERROR_STOP=1", "-c", "SELECT 1/0", ROTA_DATABASE_URL=database_url)
    assert wrong.returncode == 1
    assert "division by zero" in wrong.stderr


def test_no_secret_on_the_command_line(
    database_url: str, cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def run(command: list[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.update(command=command, env=env)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("ROTA_DATABASE_URL", database_url)
    assert cli("psql", "-c", "SELECT 1").code == 3
    password = psycopg.conninfo.conninfo_to_dict(database_url)["password"]
    assert isinstance(password, str)
    assert all(password not in word for word in seen["command"])
    assert seen["env"]["PGPASSWORD"] == password


def test_without_psql(cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", database_url)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("rota.embedded.binaries.find_program", lambda _: None)
    result = cli("psql")
    assert result.code == 1
    assert "psql is not installed" in result.err
