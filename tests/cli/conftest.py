"""Commands in this process, on the test's database, in an empty directory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rota.cli.main import run


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: object, stdin: str = "") -> Result:
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "stdin", StringIO(stdin))
        code = run([str(it) for it in arguments])
        out, err = self._capsys.readouterr()
        return Result(code, out, err)

    def done(self, *arguments: object, stdin: str = "") -> Result:
        """One that has to work."""
        result = self(*arguments, stdin=stdin)
        assert result.code == 0, result
        return result


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, no setting, and no module of another test."""
    for name in list(os.environ):
        if name.startswith("ROTA_") and name != "ROTA_TESTS_PLACE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("ROTA_CONFIG", "")  # --config sets it: put it back afterwards
    monkeypatch.setenv("USER", "alice")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()  # nothing above it is looked at
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        origin = getattr(sys.modules[name], "__file__", None) or ""
        if origin.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def bare_cli(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """Without any database."""
    return Cli(capsys, monkeypatch)


@pytest.fixture
def cli(bare_cli: Cli, app_url: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("ROTA_DATABASE_URL", app_url)
    return bare_cli
