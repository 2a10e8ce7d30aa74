from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.cli import config
from tests.cli.conftest import Cli
from tests.test_config import MALFORMED_URLS as ALL_MALFORMED_URLS

# A file cannot hold halves of characters.
MALFORMED_URLS = [one for one in ALL_MALFORMED_URLS if "\ud800" not in one]


def test_set_get_unset(bare_cli: Cli, here: Path) -> None:
    assert bare_cli.done("config", "set", "worker.concurrency", "7").out.endswith("rota.toml\n")
    assert (here / "rota.toml").read_text() == "[worker]\nconcurrency = 7\n"
    assert bare_cli.done("config", "get", "worker.concurrency").out == "7\n"
    entry = bare_cli.done("config", "get", "worker.concurrency", "--json").json
    assert (entry["value"], entry["source"]) == (7, "file")
    assert bare_cli.done("config", "unset", "worker.concurrency").code == 0
    result = bare_cli("config", "unset", "worker.concurrency")
    assert result.code == 1
    assert "is not set in" in result.err


def test_an_environment_variable_that_wins_is_mentioned(
    bare_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_WORKER_CONCURRENCY", "3")
    assert (
        "takes precedence over the file"
        in bare_cli.done("config", "set", "worker.concurrency", "7").err
    )
    assert bare_cli.done("config", "get", "worker.concurrency").out == "3\n"


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("worker.concurrency", "0", "from 1 to 1024"),
        ("worker.concurrency", "many", "whole number"),
        ("embedded", "maybe", "true or false"),
        ("worker.concurency", "1", "did you mean worker.concurrency?"),
    ],
)
def test_bad_settings_are_refused(
    bare_cli: Cli, here: Path, key: str, value: str, hint: str
) -> None:
    result = bare_cli("config", "set", key, value)
    assert result.code == 2
    assert hint in result.err
    assert not (here / "rota.toml").exists()


def test_list_masks_secrets(bare_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", "postgresql://u:secret@h/d")
    for flags in ((), ("--json",)):
        text = bare_cli.done("config", "list", *flags).out
        assert "secret" not in text
        assert "***" in text
    assert bare_cli.done("config", "get", "database_url").out == "***\n"
    assert "secret" in bare_cli.done("config", "get", "database_url", "--reveal").out


def test_init_writes_every_setting_once(bare_cli: Cli, here: Path) -> None:
    bare_cli.done("config", "init")
    assert "# concurrency = " in (here / "rota.toml").read_text()
    result = bare_cli("config", "init")
    assert (result.code, result.err.splitlines()[0]) == (1, "error: rota.toml already exists")
    bare_cli.done("config", "init", "other.toml")
    bare_cli.done("config", "set", "schema", "jobs", "--file", "other.toml")
    assert bare_cli.done("--config", "other.toml", "config", "get", "schema").out == "jobs\n"


def test_a_broken_file_is_named(bare_cli: Cli, here: Path) -> None:
    (here / "rota.toml").write_text("worker = [")
    result = bare_cli("config", "list")
    assert result.code == 2
    assert str(here / "rota.toml") in result.err


SECRET = "postgresql://ada:hunter2@h/d"


def test_a_secret_from_standard_input_is_seen_by_nobody(bare_cli: Cli, here: Path) -> None:
    """Neither in the list of processes, nor in the answer, nor in the file, by others."""
    result = bare_cli.done("config", "set", "database_url", "-", stdin=f"{SECRET}\n")
    assert "hunter2" not in result.out + result.err
    assert bare_cli.done("config", "get", "database_url", "--reveal").out == f"{SECRET}\n"
    file = here / "rota.toml"
    assert file.stat().st_mode & 0o077 == 0
    assert "chmod" not in result.err
    file.chmod(0o644)
    assert "chmod 600" in bare_cli.done("config", "set", "database_url", SECRET).err
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("url", MALFORMED_URLS)
def test_no_command_shows_a_malformed_url(
    bare_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("ROTA_DEBUG", "1")
    (here / "rota.toml").write_text(f"database_url = {json.dumps(url)}")
    (here / "jobs.py").write_text("import rota\napp = rota.App()\n")
    for words in (("runs", "list"), ("config", "list", "--json"), ("worker", "--app", "jobs.py")):
        result = bare_cli(*words)
        assert result.code in (1, 2)
        assert "database_url must be" in result.err
        assert not re.search("hunter2|ada", result.out + result.err.replace(str(here), ""))


def test_the_line_for_psql_holds_no_secret() -> None:
    from rota.cli.serving.dev import _psql

    url = f"{SECRET}?sslpassword=hunter3&application_name=x"
    app: Any = SimpleNamespace(
        database=SimpleNamespace(url=url), embedded_home=None, config=SimpleNamespace(schema="rota")
    )
    assert _psql(app) == 'psql "user=ada dbname=d host=h application_name=x"'


def test_the_line_for_psql_finds_the_tables_of_a_role_that_is_called_like_the_schema() -> None:
    from rota.cli.serving.dev import _psql

    app: Any = SimpleNamespace(
        database=SimpleNamespace(url="postgresql://rota@h/d"),
        embedded_home=None,
        config=SimpleNamespace(schema="rota"),
    )
    assert _psql(app) == "psql \"user=rota dbname=d host=h options='-c search_path=public'\""


def test_a_database_that_is_not_configured_would_be_the_embedded_one(bare_cli: Cli) -> None:
    """Nothing opens it before it is there."""
    result = bare_cli.done("config", "get", "database_url")
    assert (result.out, result.err) == (
        "\n",
        "not set, and there is no embedded database here yet; `rota dev` creates one\n",
    )
    assert bare_cli("psql", "-c", "SELECT 1").code == 2


def test_an_embedded_database_says_what_opens_it(
    bare_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "has_embedded", lambda _: True)
    monkeypatch.setattr(config, "_embedded", lambda _ctx, _reveal: "host=/tmp/x dbname=rota")
    result = bare_cli.done("config", "get", "database_url")
    assert result.out == "host=/tmp/x dbname=rota\n"
    assert result.err == "not set: the embedded Postgres is used; `rota psql` opens it\n"
