from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

import rota
from tests.cli.conftest import Cli


@pytest.fixture
def jobs(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def send(user_id: int = 1) -> None: ...

    assert app.database.url
    return app


def test_nothing_to_list(cli: Cli) -> None:
    assert cli.done("tenants", "list").err == "no tenants; runs and schedules name them\n"
    assert cli.done("tenants", "list", "--json").json == []
    assert cli("tenants", "show", "acme")[::2] == (
        1, 'error: there is no tenant "acme": no run, schedule or setting names it\n',
    )  # fmt: skip


def test_set_show_and_reset(cli: Cli) -> None:
    flags = ("--weight", "2", "--max-waiting", "1_000", "--retention-days", "7")
    done = cli.done("tenants", "set", "acme", *flags, "--reason", "gold", "--metadata", '{"a": 1}')
    assert done.out == 'tenant "acme" set\n'
    found = cli.done("tenants", "show", "acme", "--json").json["tenant"]
    assert (found["weight"], found["max_waiting"], found["metadata"]) == (2.0, 1000, {"a": 1})
    shown = cli.done("tenants", "show", "acme").out
    assert "max waiting" in shown
    cleared = cli.done("tenants", "set", "acme", "--max-waiting", "none", "--json").json
    assert (cleared["max_waiting"], cleared["weight"]) == (None, 2.0)
    assert cli("tenants", "set", "acme", "--version", "1", "--weight", "3").code == 1
    assert cli("tenants", "set", "acme").code == 2
    assert cli("tenants", "set", "acme", "--max-waiting", "many").code == 2
    assert "weight must be" in cli("tenants", "set", "acme", "--weight", "0").err
    assert "must not contain a slash" in cli("tenants", "set", "a/b", "--weight", "1").err
    assert cli.done("tenants", "set", "acme", "--reset").out == 'tenant "acme" reset\n'
    assert cli("tenants", "set", "acme", "--reset").err == 'error: tenant "acme" has no settings\n'


def test_pause_and_resume(cli: Cli, jobs: rota.App) -> None:
    cli.done("runs", "enqueue", "send", "--tenant", "acme")
    done = cli.done("tenants", "pause", "acme", "--reason", "unpaid")
    assert done.out == 'tenant "acme" paused; 1 run held\n'
    line = cli.done("tenants", "list", "--paused").out.splitlines()[1]
    assert line.split()[:2] == ["acme", "paused"]
    assert "by cli:alice: unpaid" in line
    assert "Tenant acme is paused" in cli.done("why", "1").out
    assert cli("tenants", "pause", "acme").err == 'error: tenant "acme" is already paused\n'
    assert "paused until" in cli.done("tenants", "pause", "acme", "--for", "2h").out
    assert cli.done("tenants", "resume", "acme").out == 'tenant "acme" resumed; 1 run freed\n'
    assert cli("tenants", "resume", "acme").err == 'error: tenant "acme" is not paused\n'


def test_runs_show_whose_they_are(cli: Cli, jobs: rota.App) -> None:
    cli.done("runs", "enqueue", "send")
    assert "TENANT" not in cli.done("runs", "list").out
    cli.done("runs", "enqueue", "send", "--tenant", "acme")
    lines = cli.done("runs", "list").out.splitlines()
    assert lines[0].split()[:4] == ["ID", "STATE", "TENANT", "JOB"]
    assert lines[1].split()[2:4] == ["acme", "send"]
    assert len(cli.done("runs", "list", "--tenant", "acme", "--json").json) == 1


def test_names_as_lists_print_them(cli: Cli, jobs: rota.App) -> None:
    for flags in (("--tenant", "acme"), ()):
        cli.done(
            "schedules", "create", "--name", "sync", "--job", "send", "--cron", "@daily", *flags
        )
    assert "acme/sync" in cli.done("schedules", "list").out
    assert cli.done("schedules", "show", "acme/sync", "--json").json["tenant"] == "acme"
    cli.done("schedules", "pause", "acme/sync", "--reason", "x")
    assert "is paused" in cli.done("why", "acme/sync").out
    assert "is paused" not in cli.done("why", "sync").out
    cli.done("schedules", "create", "--name", "a/b", "--job", "send", "--cron", "@daily")
    assert cli.done("schedules", "show", "a/b", "--json").json["name"] == "a/b"
    assert cli("schedules", "show", "blue/sync").code == 1
    cli.done("schedules", "delete", "acme/sync")
    assert cli("schedules", "show", "acme/sync").code == 1


def test_export_and_delete(cli: Cli, jobs: rota.App, here: Path) -> None:
    cli.done("runs", "enqueue", "send", "--tenant", "acme")
    cli.done("tenants", "set", "acme", "--weight", "2")
    done = cli.done("tenants", "export", "acme", "--to", "acme.tar.gz")
    assert done.out.startswith('tenant "acme" exported to acme.tar.gz: ')
    with tarfile.open(here / "acme.tar.gz") as archive:
        assert {"manifest.json", "open_runs.jsonl", "logs.jsonl"} <= set(archive.getnames())
    assert cli("tenants", "export", "acme", "--to", "acme.tar.gz").code == 2
    assert cli("tenants", "export", "acme", "--to", "none/a.tar.gz").code == 2
    again = cli.done("tenants", "export", "acme", "--to", "acme.tar.gz", "--force", "--json").json
    assert again["rows"]["open_runs"] == 1
    assert cli("tenants", "export", "none", "--to", "b.tar.gz").code == 1
    refused = cli("tenants", "delete", "acme")
    assert (refused.code, "1 open run (0 running)" in refused.err) == (2, True)
    assert cli.done("tenants", "show", "acme", "--json").json["tenant"]["weight"] == 2
    done = cli.done("tenants", "delete", "acme", "--yes", "--reason", "left us")
    assert done.out.startswith('tenant "acme" deleted: ')
    assert cli.done("runs", "list").err == "no runs\n"
    assert cli("tenants", "delete", "acme", "--yes").code == 1
