"""`rota events emit`; and the orders, filters and reasons that commands share with the API."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.cli.conftest import Cli


def test_emit_starts_what_is_bound(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.jobs (name, events) VALUES ('receipt', '{order.paid}')")
    arguments = ("events", "emit", "order.paid", '{"n": 1}', "--key", "7")
    assert cli.done(*arguments).out == "run 1 of receipt enqueued\n"
    assert cli.done(*arguments).out == "run 1 of receipt was there already\n"
    again = cli.done(*arguments, "--json").json
    assert again == [{"id": 1, "job": "receipt", "is_duplicate": True}]
    kept = cli.done(*arguments[:4], "--key", "8", "--key-keep", "1h", "--json").json
    assert conn.execute(
        "SELECT key_seconds FROM rota.open_runs WHERE id = %s", [kept[0]["id"]]
    ).fetchone() == (3600.0,)
    refused = cli("events", "emit", "order.paid", "--key-keep", "1h")
    assert (refused.code, "there is no key" in refused.err) == (2, True)
    assert "no job is bound" in cli.done("events", "emit", "nobody.cares").err
    (actor,) = conn.execute("SELECT DISTINCT actor FROM rota.audit").fetchone() or ("",)
    assert actor == "cli:alice"


def test_lists_in_other_orders(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "INSERT INTO rota.jobs (name, metadata, tags, is_enabled, created_at) VALUES"
        " ('a', '{\"team\": \"x\"}', '{t}', true, now()),"
        " ('b', '{}', '{}', false, now() + interval '1 s')"
    )
    conn.execute("INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('s', 'a', 60)")

    def names(*arguments: str) -> list[str]:
        return [one["name"] for one in cli.done(*arguments, "--json").json]

    assert names("jobs", "list", "--order", "newest") == ["b", "a"]
    assert names("jobs", "list", "--metadata", "team:x", "--tag", "t") == ["a"]
    assert names("jobs", "list", "--enabled", "false") == ["b"]
    assert names("schedules", "list", "--order", "next", "--metadata", "team:y") == []
    assert names("queues", "list", "--order", "longest") == ["default"]
    for wrong in (("--order", "size"), ("--metadata", "team"), ("--enabled", "yes")):
        assert cli("jobs", "list", *wrong).code == 2
    assert cli("schedules", "list", "--order", "next", "--after", "1").code == 2


def test_reasons_and_versions(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('a')")
    conn.execute("INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('s', 'a', 60)")
    cli.done("schedules", "disable", "s", "--reason", "quiet")
    assert cli("schedules", "delete", "s", "--version", "99").code == 1
    cli.done("schedules", "delete", "s", "--version", "2", "--reason", "no more")
    told = cli.done("audit", "list", "--oldest", "--noun", "schedule", "--json").json
    assert [one["reason"] for one in told][-2:] == ["quiet", "no more"]
    assert cli("jobs", "delete", "a", "--version", "99").code == 1
    cli.done("jobs", "delete", "a", "--version", "1")
