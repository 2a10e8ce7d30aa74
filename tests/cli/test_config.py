from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


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
    assert "wins over the file" in bare_cli.done("config", "set", "worker.concurrency", "7").err
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
    assert (result.code, result.err.splitlines()[0]) == (1, "error: rota.toml exists already")
    bare_cli.done("config", "init", "other.toml")
    bare_cli.done("config", "set", "schema", "jobs", "--file", "other.toml")
    assert bare_cli.done("--config", "other.toml", "config", "get", "schema").out == "jobs\n"


def test_a_broken_file_is_named(bare_cli: Cli, here: Path) -> None:
    (here / "rota.toml").write_text("worker = [")
    result = bare_cli("config", "list")
    assert result.code == 2
    assert str(here / "rota.toml") in result.err
