"""`rota why`, and the end of `rota runs show`."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("mail", queue="mail")
    return engine


def test_reasons_in_order_with_their_commands(cli: Cli, engine: Engine) -> None:
    run = engine.enqueue("mail")
    engine.one("SELECT rota.pause_queue('mail', 'provider is down', 'grace')")
    lines = cli.done("why", run).out.splitlines()
    assert lines[0] == f"run {run}"
    assert lines[1] == "1. Queue mail is paused by grace: “provider is down”."
    assert lines[2].strip().startswith("since 20")
    assert lines[4].strip() == "$ rota queues resume mail"
    assert lines[5] == "2. No worker is running."


def test_as_json(cli: Cli, engine: Engine) -> None:
    found = cli.done("why", "mail", "--json").json
    assert (found["kind"], found["also"]) == ("job", ["queue"])
    assert [one["code"] for one in found["reasons"]] == ["no_worker", "idle"]


def test_a_name_of_several_things(cli: Cli, engine: Engine) -> None:
    result = cli.done("why", "mail")
    assert result.out.startswith("job mail\n")
    assert "a queue has the same name; to ask about it: --kind queue" in result.err
    assert cli.done("why", "mail", "--kind", "queue").out.startswith("queue mail\n")


def test_a_schedule_of_a_tenant(cli: Cli, engine: Engine) -> None:
    engine._insert("schedules", {"name": "s", "tenant": "acme", "job": "mail", "cron": "0 3 * * *"})
    assert cli.done("why", "s", "--tenant", "acme").out.startswith("schedule s\n")
    assert cli("why", "s").code == 1


def test_a_database_that_is_away_is_a_reason_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    result = cli("why", 1)
    assert result.code == 1
    assert "hint: is the database running?" in result.err


def test_a_run_that_waits_is_shown_with_its_reasons(cli: Cli, engine: Engine) -> None:
    worker, run = engine.worker("mail"), engine.enqueue("mail")
    assert "1. It is next in queue mail." in cli.done("runs", "show", run).out
    engine.succeed(worker, engine.claim_one(worker, queues=["mail"], jobs=["mail"]))
    assert "why" not in cli.done("runs", "show", run).out.splitlines()
