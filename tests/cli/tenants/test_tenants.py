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


def test_runs_show_whose_they_are(cli: Cli, jobs: rota.App) -> None:
    cli.done("runs", "enqueue", "send")
    assert "TENANT" not in cli.done("runs", "list").out
    cli.done("runs", "enqueue", "send", "--tenant", "acme")
    lines = cli.done("runs", "list").out.splitlines()
    assert lines[0].split()[:4] == ["ID", "STATE", "TENANT", "JOB"]
    assert lines[1].split()[2:4] == ["acme", "send"]
    assert len(cli.done("runs", "list", "--tenant", "acme", "--json").json) == 1


def test_names_as_lists_print_them(cli: Cli, jobs: rota.App, conn: Any) -> None:
    for flags in (("--tenant", "acme"), ()):
        cli.done("schedules", "create", "sync", "send", "--cron", "@daily", *flags)
    assert "acme/sync" in cli.done("schedules", "list").out
    assert cli.done("schedules", "show", "acme/sync", "--json").json["tenant"] == "acme"
    cli.done("schedules", "pause", "acme/sync", "--reason", "x")
    assert "is paused" in cli.done("why", "acme/sync").out
    assert "is paused" not in cli.done("why", "sync").out
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('a/b', 'send', '@daily')")
    assert cli.done("schedules", "show", "a/b", "--json").json["name"] == "a/b"
    assert cli("schedules", "show", "blue/sync").code == 1
    cli.done("schedules", "delete", "acme/sync")
    assert cli("schedules", "show", "acme/sync").code == 1


def test_a_schedule_is_created_by_the_name_that_lists_print(cli: Cli, jobs: rota.App) -> None:
    create = ("send", "--cron", "@daily")
    made = cli.done("schedules", "create", "acme/sync", *create)
    assert made.out == 'schedule "acme/sync" created: every day at 00:00 (UTC)\n'
    found = cli.done("schedules", "list", "--json").json
    assert [(it["tenant"], it["name"]) for it in found] == [("acme", "sync")]
    cli.done("schedules", "create", "acme/sync/hourly", *create)
    assert cli.done("schedules", "show", "acme/sync/hourly", "--json").json["name"] == "sync/hourly"
    again = cli("schedules", "create", "acme/sync", *create)
    assert (again.code, 'schedule "sync" already exists' in again.err) == (1, True)
    for tenant in ("", "acme"):
        refused = cli("schedules", "create", "acme/sync", *create, "--tenant", tenant)
        assert refused.code == 2
        assert '"acme/sync" means "sync" of tenant "acme"; pass it without --tenant' in refused.err
    assert len(cli.done("schedules", "list", "--json").json) == 2


def test_nothing_else_is_created_by_a_name_that_means_a_tenants(
    cli: Cli, jobs: rota.App, conn: Any
) -> None:
    assert cli("limits", "set", "acme/calm", "--cap", 2, "--tenant", "").code == 2
    assert cli.done("limits", "list", "--json").json == []
    conn.execute("INSERT INTO rota.limits (name, kind, cap) VALUES ('a/b', 'concurrency', 2)")
    made = cli.done("limits", "set", "a/b", "--cap", 3, "--tenant", "", "--json").json[0]["result"]
    assert (made["tenant"], made["name"], made["cap"]) == ("", "a/b", 3)


def test_a_limit_of_a_tenants_schedule(cli: Cli, jobs: rota.App) -> None:
    cli.done("schedules", "create", "acme/sync", "send", "--cron", "@daily")
    limit = ("--cap", 2, "--schedule", "acme/sync")
    refused = cli("limits", "set", "calm", *limit)
    assert (refused.code, "use a limit of the same tenant" in refused.err) == (2, True)
    made = cli.done("limits", "set", "acme/calm", *limit, "--json").json[0]["result"]
    assert (made["tenant"], made["schedule"]) == ("acme", "sync")


def test_runs_of_a_schedule_by_the_name_that_lists_print(cli: Cli, jobs: rota.App) -> None:
    for flags in (("--tenant", "acme"), ()):
        cli.done("schedules", "create", "sync", "send", "--cron", "@daily", *flags)
    assert "enqueued run 1 of send" in cli.done("schedules", "trigger", "acme/sync").out
    assert "enqueued run 2 of send" in cli.done("schedules", "trigger", "sync").out
    found = cli.done("runs", "list", "--schedule", "acme/sync", "--json").json
    assert [run["id"] for run in found] == [1]
    assert "acme/sync" in cli.done("top", "--once").out
    paused = cli.done("schedules", "pause", "acme/sync").out
    assert paused == 'schedule "acme/sync" paused until it is resumed\n'


def test_a_name_that_may_mean_two_schedules(cli: Cli, jobs: rota.App, conn: Any) -> None:
    insert = "INSERT INTO rota.schedules (name, tenant, job, cron) VALUES (%s, %s, 'send', %s)"
    conn.execute(insert, ["acme/sync", "", "0 3 * * *"])
    assert "acme/sync" in cli.done("schedules", "show", "acme/sync").out
    conn.execute(insert, ["sync", "acme", "0 4 * * *"])
    refused = cli("schedules", "delete", "acme/sync")
    assert refused.code == 2
    assert '"acme/sync" has no tenant, and tenant "acme" has "sync"' in refused.err
    cli.done("schedules", "delete", "sync", "--tenant", "acme")
    cli.done("schedules", "delete", "acme/sync", "--tenant", "")
    assert conn.execute("SELECT FROM rota.schedules WHERE NOT is_system").fetchall() == []


def test_limits_by_the_name_that_lists_print(cli: Cli, jobs: rota.App) -> None:
    for flags in (("--tenant", "acme"), ()):
        cli.done("limits", "set", "calm", "--cap", 2, *flags)
    lines = cli.done("limits", "list").out.splitlines()
    assert {line.split()[0] for line in lines[1:]} == {"acme/calm", "calm"}
    assert cli.done("limits", "show", "acme/calm", "--json").json["limit"]["tenant"] == "acme"
    cli.done("limits", "set", "acme/calm", "--cap", 3)
    assert cli.done("limits", "show", "acme/calm", "--json").json["limit"]["cap"] == 3
    assert cli.done("limits", "remove", "acme/calm").out == 'limit "acme/calm" removed\n'
    assert cli.done("limits", "show", "calm", "--json").json["limit"]["cap"] == 2


def test_a_column_for_tenants_where_there_are_any(cli: Cli, jobs: rota.App) -> None:
    cli.done("events", "emit", "order.paid")
    assert "TENANT" not in cli.done("events", "list").out
    assert "TENANT" not in cli.done("audit", "list").out
    cli.done("events", "emit", "order.paid", "--tenant", "acme")
    for noun in ("events", "audit"):
        head, first, *_ = cli.done(noun, "list").out.splitlines()
        assert "TENANT" in head
        assert "acme" in first.split()


def test_pages_in_any_order(cli: Cli, jobs: rota.App) -> None:
    for name in ("a", "b", "c"):
        cli.done("tenants", "set", name, "--weight", 2)
    for order in ("name", "waiting"):
        flags = ("--order", order, "--limit", 2)
        first = cli.done("tenants", "list", *flags, "--json")
        assert first.err.startswith("2 shown; next page: --after ")
        cursor = first.err.split()[-1]
        rest = cli.done("tenants", "list", *flags, "--after", cursor, "--json")
        assert (rest.err, len(rest.json)) == ("", 1)
        names = [one["name"] for one in [*first.json, *rest.json]]
        assert sorted(names) == ["a", "b", "c"]
        refused = cli("tenants", "list", "--order", "failed", "--after", cursor)
        assert refused.code == 2
        assert "is not a cursor of this list in this order" in refused.err


@pytest.mark.parametrize("cursor", ["x", "12", "W10", "eyJhIjoxfQ", "é"])
def test_what_is_no_cursor(cli: Cli, cursor: str) -> None:
    for noun in ("tenants", "schedules", "errors"):
        code, _, err = cli(noun, "list", "--after", cursor)
        assert (code, "is not a cursor" in err) == (2, True)


def test_export_and_delete(cli: Cli, jobs: rota.App, here: Path) -> None:
    cli.done("runs", "enqueue", "send", "--tenant", "acme")
    cli.done("tenants", "set", "acme", "--weight", "2")
    done = cli.done("tenants", "export", "acme", "--to", "acme.tar.gz")
    assert done.out.startswith('tenant "acme" exported to acme.tar.gz: ')
    with tarfile.open(here / "acme.tar.gz") as archive:
        assert {"manifest.json", "open_runs.jsonl", "logs.jsonl"} <= set(archive.getnames())
    assert (here / "acme.tar.gz").stat().st_mode & 0o777 == 0o600
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
