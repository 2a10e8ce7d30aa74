"""`rota jobs update|delete|show` and versions, by the command line."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(cli: Cli, conn: Connection) -> Cli:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('send'), ('other')")
    return cli


def test_update_takes_all_there_is(jobs: Cli) -> None:
    found = jobs.done(
        "jobs", "update", "send", "--description", "d", "--queue", "q", "--priority", "1",
        "--max-attempts", "7", "--timeout", "5m", "--backoff", "fixed", "--tags", "a,b",
        "--metadata", '{"team": "x"}', "--default-payload", '{"n": 1}',
        "--events", "e.a,e.b", "--json",
    ).json[0]["result"]  # fmt: skip
    wanted = {
        "description": "d", "queue": "q", "priority": 1, "max_attempts": 7, "timeout_seconds": 300,
        "tags": ["a", "b"], "metadata": {"team": "x"}, "default_payload": {"n": 1},
        "events": ["e.a", "e.b"], "strategies": ["on_demand", "event"], "version": 2,
    }  # fmt: skip
    assert wanted.items() <= found.items()
    assert found["backoff"]["kind"] == "fixed"
    jobs.done(
        "jobs", "update", "send", "--default-payload", "none", "--timeout", "none", "--events", ""
    )
    found = jobs.done("jobs", "show", "send", "--json").json
    assert (found["default_payload"], found["timeout_seconds"], found["events"]) == (None, None, [])


def test_show_and_list_say_what_starts_it(jobs: Cli, conn: Connection) -> None:
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'send', '@daily')")
    conn.execute("UPDATE rota.jobs SET events = '{order.paid}' WHERE name = 'send'")
    shown = jobs.done("jobs", "show", "send").out
    assert "on demand, cron, event" in shown
    assert "order.paid" in shown
    assert "on demand, cron, event" in jobs.done("jobs", "list").out


def test_marks_that_plain_sql_wrote(jobs: Cli, conn: Connection) -> None:
    conn.execute(
        """UPDATE rota.jobs SET edited = '{"priority": {"by": "me", "at": "infinity"}, "queue": {}}'
        WHERE name = 'send'"""
    )
    text = jobs.done("jobs", "show", "send").out
    assert "priority by me; queue by unknown" in text


def test_a_list_by_part_of_a_name(jobs: Cli) -> None:
    assert [it["name"] for it in jobs.done("jobs", "list", "--text", "END", "--json").json] == [
        "send"
    ]
    assert jobs.done("jobs", "list", "--text", "nope").err == "no jobs match\n"


def test_the_history_of_a_deleted_schedule(jobs: Cli, conn: Connection) -> None:
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'send', '@daily')")
    conn.execute("SELECT rota.delete_schedule('s')")
    assert "no entries" in jobs.done("schedules", "history", "s").err
    assert jobs("schedules", "history", "t").code == 1
