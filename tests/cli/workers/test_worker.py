"""`rota worker` as a process, with the signals that a service manager sends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.testing import eventually_sync
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]
Start = Callable[..., subprocess.Popen[str]]

SHOP = """
import asyncio, rota
app = rota.App()

@app.job
async def add(a: int, b: int) -> int:
    return a + b

@app.job
async def hold() -> None:
    await asyncio.sleep(600)

@app.job(executor="process")
def crunch(n: int) -> int:
    return n * 2
"""


@pytest.fixture
def shop(cli: Cli, here: Path) -> Path:
    (here / "shop_app.py").write_text(SHOP)
    return here


@pytest.fixture
def start(shop: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rota", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=shop, env=os.environ,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def live(conn: Connection, count: int = 1) -> None:
    def are_live() -> bool:
        row = conn.execute("SELECT count(*) FROM rota.workers WHERE state = 'live'").fetchone()
        return row == (count,)

    eventually_sync(are_live, 30)


def state(conn: Connection, run: int) -> Any:
    row = conn.execute("SELECT state, attempts_used FROM rota.runs WHERE id = %s", [run]).fetchone()
    return row


def test_it_runs_jobs_and_stops_in_order(start: Start, cli: Cli, conn: Connection) -> None:
    worker = start("worker", "--app", "shop_app.py", "--concurrency", "3", "--queues", "default,x")
    live(conn)
    row = conn.execute("SELECT queues, concurrency, jobs FROM rota.workers").fetchone()
    own = ["rota.cleanup", "rota.prune_logs", "rota.prune_runs"]
    # Housekeeping has a queue that every worker serves.
    assert row == (["default", "x", "rota.system"], 3, ["add", "crunch", "hold", *own])
    added = cli.done("runs", "enqueue", "add", '{"a": 2, "b": 3}', "--wait", "--timeout", "20s")
    assert added.out == "5\n"
    doubled = cli.done("runs", "enqueue", "crunch", '{"n": 4}', "--wait", "--timeout", "20s")
    assert doubled.out == "8\n"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert conn.execute("SELECT state FROM rota.workers").fetchone() == ("gone",)


def test_a_second_signal_does_not_wait(start: Start, cli: Cli, conn: Connection) -> None:
    worker = start("worker", "--app", "shop_app:app")
    live(conn)
    run = cli.done("runs", "enqueue", "hold", "--json").json["id"]
    eventually_sync(lambda: state(conn, run) == ("running", 0))
    worker.send_signal(signal.SIGINT)
    eventually_sync(
        lambda: conn.execute("SELECT state FROM rota.workers").fetchone() == ("stopping",)
    )
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert state(conn, run) == ("queued", 0)


def test_processes(start: Start, cli: Cli, conn: Connection) -> None:
    worker = start("worker", "--app", "shop_app.py", "--processes", "2", "--concurrency", "1")
    live(conn, 2)
    added = cli.done("runs", "enqueue", "add", '{"a": 2, "b": 3}', "--wait", "--timeout", "20s")
    assert added.out == "5\n"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert conn.execute("SELECT DISTINCT state FROM rota.workers").fetchall() == [("gone",)]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--concurrency", "0"), "worker.concurrency must be"),
        (("--poll", "soon"), "is not a duration"),
        (("--lease", "1s"), "worker.lease_seconds must be"),
        (("--processes", "1000"), "worker.processes must be"),
        (("--app", "nowhere"), "no module named nowhere"),
    ],
)
def test_wrong_use(cli: Cli, shop: Path, flags: tuple[str, ...], words: str) -> None:
    result = cli("--app", "shop_app", "worker", *flags)
    assert result.code == 2
    assert words in result.err


def test_a_database_that_was_not_migrated(
    start: Start, monkeypatch: pytest.MonkeyPatch, conn: Connection
) -> None:
    monkeypatch.setenv("ROTA_SCHEMA", "elsewhere")
    for flags in ((), ("--processes", "2")):
        worker = start("worker", "--app", "shop_app", *flags)
        assert worker.wait(30) == 1
        assert worker.stdout is not None
        assert "hint: run `rota --app shop_app migrate`" in worker.stdout.read()


def test_without_an_application_it_runs_sql_jobs(start: Start, cli: Cli, conn: Connection) -> None:
    conn.execute(
        "CREATE FUNCTION public.hello() RETURNS jsonb LANGUAGE sql AS"
        ' $$ SELECT \'{"success": true, "message": "hello"}\'::jsonb $$'
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name) VALUES ('hello', 'sql', 'public.hello')"
    )
    worker = start("worker", "--concurrency", "2")
    result = cli.done("runs", "enqueue", "hello", "--wait", "--timeout", "20s", "--json")
    assert '"succeeded"' in result.out
    worker.terminate()
    out, _ = worker.communicate(timeout=60)
    assert out.startswith("no application is set: this worker runs SQL jobs only")


def test_without_an_application_and_a_database_it_says_so(bare_cli: Cli) -> None:
    result = bare_cli("worker")
    assert (result.code, "no database is configured" in result.err) == (2, True)
