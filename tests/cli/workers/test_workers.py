from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def worker(cli: Cli, conn: Connection) -> int:
    row = conn.execute(
        "SELECT rota.register_worker('w', 'box', 7, '1.0', '{a,b}', '{send}', 4, 30)"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_show(cli: Cli, worker: int) -> None:
    text = cli.done("workers", "show", worker).out
    assert "0 of 4 slots" in text
    assert "a, b" in text
    assert cli.done("workers", "show", worker, "--json").json["version"] == "1.0"
    assert cli("workers", "show", 99)[::2] == (1, "error: there is no worker 99\n")
    assert cli("workers", "show", "box").code == 2


def test_an_isolated_run_is_shown_everywhere(cli: Cli, conn: Connection) -> None:
    engine = Engine(conn)
    engine.job("send")
    run, lost, worker = engine.enqueue("send"), engine.worker("send"), engine.worker("send")
    engine.claim_one(lost, jobs=["send"])
    engine.lose(lost)
    engine.rescue()
    waits = "waiting to be isolated, because a worker was lost"
    assert waits in cli.done("runs", "show", run).out
    assert cli.done("runs", "show", run, "--json").json["isolation"] == "waiting"

    (claim,) = engine.claim_suspect(worker, ["send"])
    assert f"isolating run {run}" in cli.done("workers", "list").out
    assert f"live, isolating run {run}" in cli.done("workers", "show", worker).out
    assert f"isolating run {run}" in cli.done("top", "--once").out
    assert "isolated in a separate process" in cli.done("runs", "show", run).out
    assert cli.done("workers", "show", worker, "--json").json["isolating_run"] == run

    engine.succeed(worker, claim)
    assert "isolating" not in cli.done("workers", "list").out
    assert cli.done("runs", "show", run, "--json").json["isolation"] is None


def test_one_that_sleeps(cli: Cli, conn: Connection, worker: int) -> None:
    Engine(conn).one("SELECT rota.fall_asleep(%s, 600, true)", worker)
    text = cli.done("workers", "list").out
    assert "asleep" in text
    assert "SIGUSR1" in cli.done("workers", "show", worker).out
    (found,) = cli.done("workers", "list", "--status", "asleep", "--json").json
    assert found["asleep_until"] is not None


def test_filters(cli: Cli, worker: int) -> None:
    assert len(cli.done("workers", "list", "--host", "box", "--json").json) == 1
    assert cli.done("workers", "list", "--host", "bix").err == "no workers match\n"
    assert cli.done("workers", "list", "--status", "draining", "--json").json == []
    assert len(cli.done("workers", "list", "--status", "live", "--json").json) == 1
    code, out, err = cli("workers", "list", "--status", "dreaming")
    assert (code, out) == (2, "")
    assert "choose from live, " in err


def test_lost_workers_leave_the_list_after_ten_minutes(cli: Cli, conn: Connection) -> None:
    for name in ("old", "fresh", "live"):
        conn.execute("SELECT rota.register_worker(%s, 'box', 7, '', '{}', '{}', 4, 30)", [name])
    conn.execute(
        "UPDATE rota.workers SET state = 'lost', ended_at = clock_timestamp()"
        " - CASE name WHEN 'old' THEN interval '11 minutes' ELSE interval '9 minutes' END"
        " WHERE name <> 'live'"
    )

    def names(*flags: str) -> list[str]:
        return [it["name"] for it in cli.done("workers", "list", *flags, "--json").json]

    assert names() == ["live", "fresh"]
    assert names("--order", "oldest", "--include-gone") == ["old", "fresh", "live"]
    assert names("--status", "lost") == ["fresh", "old"]
    seen = cli.done("top", "--once", "--json").json["workers"]
    assert [it["name"] for it in seen] == ["live", "fresh"]
    (old, *_) = cli.done("workers", "list", "--include-gone", "--order", "oldest", "--json").json
    assert cli.done("workers", "show", old["id"], "--json").json["status"] == "lost"
