"""`rota events emit`; and the orders, filters and reasons that commands share with the API."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.cli.conftest import Cli


def test_emit_starts_what_is_bound(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.jobs (name, events) VALUES ('receipt', '{order.paid}')")
    arguments = ("events", "emit", "order.paid", '{"n": 1}', "--key", "7")
    assert cli.done(*arguments).out == "event 1: run 1 of receipt enqueued\n"
    assert cli.done(*arguments).out == "event 2: run 1 of receipt already exists\n"
    again = cli.done(*arguments, "--json").json
    assert again["runs"] == [{"run_id": 1, "job": "receipt", "is_duplicate": True}]
    kept = cli.done(*arguments[:4], "--key", "8", "--key-keep", "1h", "--json").json["runs"]
    assert conn.execute(
        "SELECT key_seconds FROM rota.open_runs WHERE id = %s", [kept[0]["run_id"]]
    ).fetchone() == (3600.0,)
    refused = cli("events", "emit", "order.paid", "--key-keep", "1h")
    assert (refused.code, "needs a key" in refused.err) == (2, True)
    assert "started nothing" in cli.done("events", "emit", "nobody.cares").out
    (actor,) = conn.execute(
        "SELECT DISTINCT actor FROM rota.audit WHERE action LIKE 'event%'"
    ).fetchone() or ("",)
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
    assert names("jobs", "list", "--no-enabled") == ["b"]
    assert names("schedules", "list", "--order", "next", "--metadata", "team:y") == []
    assert names("queues", "list", "--order", "longest") == ["default"]
    for wrong in (("--order", "size"), ("--metadata", "team"), ("--enabled=yes",)):
        assert cli("jobs", "list", *wrong).code == 2
    assert cli("schedules", "list", "--order", "next", "--after", "1").code == 2


def test_reasons_and_versions(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('a')")
    conn.execute("INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('s', 'a', 60)")
    cli.done("schedules", "disable", "s", "--reason", "quiet")
    assert cli("schedules", "delete", "s", "--version", "99").code == 1
    cli.done("schedules", "delete", "s", "--version", "2", "--reason", "no more")
    told = cli.done(
        "audit", "list", "--order", "oldest", "--object-type", "schedule", "--json"
    ).json
    assert [one["reason"] for one in told][-2:] == ["quiet", "no more"]
    assert cli("jobs", "delete", "a", "--version", "99").code == 1
    cli.done("jobs", "delete", "a", "--version", "1")


def test_what_is_kept(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "INSERT INTO rota.jobs (name, events, event_filters)"
        " VALUES ('ship', '{order.*}', '{\"order.*\": {\"n\": 1}}')"
    )
    cli.done("events", "emit", "order.paid", '{"n": 1}')
    cli.done("events", "emit", "order.paid", '{"n": 2}')
    cli.done("events", "emit", "nobody.cares", "--key", "k", "--key-period", "1h")
    cli.done("events", "emit", "nobody.cares", "--key", "k", "--key-period", "1h")
    shown = cli.done("events", "list").out
    assert "ship 1" in shown
    assert "nothing: event 3 came first" in shown
    assert "nothing: no job was bound to it" in shown
    assert "nothing: the filters of 1 job did not match" in shown
    found = cli.done("events", "list", "--name", "order.*", "--outcome", "filtered", "--json").json
    assert [one["id"] for one in found] == [2]
    assert cli.done("events", "list", "--text", "none").err == "no events match\n"
    assert cli("events", "list", "--outcome", "lost").code == 2
    assert '"n": 1' in cli.done("events", "show", "1").out
    assert "its filter did not match" in cli.done("events", "show", "2").out
    assert cli("events", "show", "99").code == 1
    assert 'order.*  ship  {"n": 1}' in " ".join(cli.done("events", "bindings").out.split("\n"))
    assert "no bindings match" in cli.done("events", "bindings", "--event", "x").err


def test_bursts(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.jobs (name, events) VALUES ('sync', '{order.*}')")
    rule = '{"debounce_seconds": 5, "longest_seconds": 60, "key": "{n}"}'
    cli.done("jobs", "update", "sync", "--event-delivery", rule)
    shown = cli.done("jobs", "show", "sync").out
    assert "the last after 5 s of quiet, at the latest 1 min after the first, for each {n}" in shown
    for _ in range(2):
        cli.done("events", "emit", "order.paid", '{"n": 1}')
    assert "sync 1 (debounced)" in cli.done("events", "list", "--outcome", "debounced").out
    assert "debounced into run 1" in cli.done("events", "show", "2").out
    assert "the latest of 2 events" in cli.done("why", "1").out
    again = cli.done("events", "replay", "sync", "--event", "order.*", "--again").out
    assert "started 0 runs; 2 joined the run of another event" in again
    cli.done("jobs", "update", "sync", "--event-delivery", "none")
    assert cli.done("jobs", "show", "sync", "--json").json["event_delivery"] is None
    assert "exactly one of" in cli("jobs", "update", "sync", "--event-delivery", '{"key": "a"}').err


def test_replay(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    cli.done("events", "emit", "order.paid", '{"n": 1}')
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('late')")
    replay = ("events", "replay", "late", "--event", "order.*")
    assert cli.done(*replay, "--dry-run").out == "1 event: would start 1 run\n"
    assert cli.done(*replay, "--since", "1h").out == "1 event: started 1 run\n"
    assert "0 runs; 1 already delivered" in cli.done(*replay).out
    assert cli.done(*replay, "--again", "--json").json["started"] == 1
    assert cli("events", "replay", "late").code == 2
    assert cli("events", "replay", "nobody", "--id", "1").code == 1


def test_watches(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE TABLE orders (id int, status text)")
    told = cli.done("watches", "add", "orders", "--on", "insert,update[status]").out
    assert told == "watch 1: public.orders emits orders.insert, orders.update\n"
    assert "insert, update[status]" in cli.done("watches", "list").out
    conn.execute("DROP TRIGGER rota_watch_1_insert ON orders")
    assert "was dropped" in cli.done("watches", "list").out
    assert cli("watches", "add", "orders", "--on", "truncate").code == 2
    wrong = cli("watches", "add", "orders", "--when", "new.nothing = 1")
    assert (wrong.code, "nothing" in wrong.err) == (2, True)
    assert cli.done("watches", "remove", "1").out == "watch 1 is removed\n"
    assert cli("watches", "remove", "7").code == 1
    assert "no table is watched" in cli.done("watches", "list").err
    assert cli.done("events", "refusals").err == "no refused requests\n"
    for minute in range(3):
        conn.execute(
            "INSERT INTO rota.hook_refusals (hook, reason, address, minute, last_at)"
            " SELECT hook, 'stale', '192.0.2.7', at, at FROM unnest('{git,pay}'::text[]) hook,"
            " (SELECT date_trunc('minute', rota.now()) - %s * interval '1 minute' AS at) t",
            [minute],
        )
    everything = cli.done("events", "refusals", "--json").json
    seen, cursor = [], ()
    for left in (2, 1, 0):
        page = cli.done("events", "refusals", "--limit", 2, *cursor, "--json")
        seen += page.json
        cursor = ("--after", page.err.split()[-1]) if left else ()
    assert page.err == ""
    assert seen == everything
    assert [one["hook"] for one in seen] == ["git", "pay"] * 3
    assert cli("events", "refusals", "--after", "odd").code == 2
