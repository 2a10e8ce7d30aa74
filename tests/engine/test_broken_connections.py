"""Workers and programs whose connections break, freeze and are forgotten, as users run them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.postgres.pipeline import prepared
from rota.postgres.sessions.connection import NoAnswer
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp
from tests.proxy import Proxy
from tests.sql_engine import Engine
from tests.workers import Loop, WorkerProcess

Start = Callable[..., WorkerProcess]
Conn = psycopg.Connection[Any]
LOOPS: tuple[Loop, ...] = ("uvloop", "asyncio")


def end_all(conn: Conn) -> int:
    """Every other connection to the database, as a restart does."""
    rows = conn.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'rota%'"
    ).fetchall()
    return len(rows)


def until_rested(engine: Engine) -> None:
    rested = "SELECT bool_and(is_waiting) FROM rota.workers WHERE state = 'live'"
    eventually_sync(lambda: engine.one(rested) is True)


@pytest.mark.parametrize("loop", LOOPS)
def test_idle_workers_survive_the_end_of_their_connections(
    worker_process: Start, engine: Engine, conn: Conn, loop: Loop
) -> None:
    workers = [worker_process("tests.apps.basic:app", loop=loop) for _ in range(2)]
    for _ in range(3):
        until_rested(engine)
        assert end_all(conn) >= 4  # a session each that claims, and one each that listens
        runs = [engine.enqueue("add", {"a": n, "b": 1}) for n in range(10)]
        eventually_sync(lambda runs=runs: all(engine.state(n) == "succeeded" for n in runs), 60)
    for worker in workers:
        worker.terminate()
    assert [worker.wait() for worker in workers] == [0, 0]


@pytest.mark.parametrize("loop", LOOPS)
def test_half_open_connections_that_are_reset(
    worker_process: Start, engine: Engine, proxy: Proxy, loop: Loop
) -> None:
    worker = worker_process("tests.apps.impatient:app", loop=loop)
    for _ in range(3):
        until_rested(engine)
        assert proxy.half_open() > 0
        run = engine.enqueue("add", {"a": 1, "b": 2})
        proxy.reset()
        eventually_sync(lambda run=run: engine.state(run) == "succeeded", 60)
    assert "UVPoll" not in worker.output
    worker.terminate()
    assert worker.wait() == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stop_does_not_wait_for_a_frozen_server(
    worker_process: Start, engine: Engine, proxy: Proxy, loop: Loop
) -> None:
    worker = worker_process("tests.apps.impatient:app", loop=loop)
    until_rested(engine)
    proxy.freeze()
    worker.terminate()
    worker.terminate()
    assert worker.wait(60) in (0, 1)


async def test_an_enqueue_does_not_wait_for_a_frozen_server(
    app: rota.App, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(prepared, "CALL_OFF_SECONDS", 0.3)

    @app.job
    async def work() -> None: ...

    await work.enqueue()
    proxy.freeze()
    with pytest.raises(rota.DatabaseError, match="did not respond") as caught:
        await work.enqueue()
    assert isinstance(caught.value.__cause__, NoAnswer)
    proxy.heal()
    await work.enqueue()


async def test_connections_that_died_at_rest_cost_nobody_an_error(
    app: rota.App, engine: Engine, conn: Conn
) -> None:
    @app.job
    async def work() -> None: ...

    for _ in range(3):
        first = await work.enqueue()
        assert work.enqueue_sync().id > first.id
        await app.jobs.get("work")
        assert end_all(conn) >= 2
        await work.enqueue()
        work.enqueue_sync()
        assert (await app.runs.get(first.id)).id == first.id
    assert engine.one("SELECT count(*) FROM rota.runs") == 12


def test_an_outage_is_one_line(worker_process: Start, engine: Engine, proxy: Proxy) -> None:
    worker = worker_process("tests.apps.basic:app")
    until_rested(engine)
    before = len(worker.output.splitlines())
    proxy.refuse()
    proxy.reset()
    eventually_sync(lambda: "the database is unavailable" in worker.output)
    eventually_sync(
        lambda: engine.one("SELECT bool_or(lease_expires_at < clock_timestamp()) FROM rota.workers")
    )
    proxy.heal()
    eventually_sync(lambda: "the database is available again" in worker.output)
    run = engine.enqueue("add", {"a": 1, "b": 2})
    eventually_sync(lambda: engine.state(run) == "succeeded", 60)
    lines = worker.output.splitlines()[before:]
    away = [line for line in lines if re.search("away|refused|closed|broke|could not", line)]
    assert len(away) == 1, "\n".join(lines)


async def test_prepared_statements_that_vanished(app: rota.App, engine: Engine) -> None:
    """The driver deallocates all of them once it has prepared something by itself."""

    @app.job
    async def work() -> None: ...

    await work.enqueue()
    for _ in range(20):
        await app.jobs.get("work")
        with pytest.raises(rota.RunNotFound):
            await app.runs.cancel(999_999)
    for _ in range(3):
        await work.enqueue()
        work.enqueue_sync()
        work.options(queue="other").enqueue_sync()
    assert engine.one("SELECT count(*) FROM rota.runs") == 10


async def test_statements_that_a_pooler_or_discard_all_forgot(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app()

    @app.job
    async def work(n: int) -> int:
        return n

    async with app.worker():
        for n in range(3):
            assert await (await work.enqueue(n=n)).wait(20) == n
            work.enqueue_sync(n=n)
            async with app.database.connection() as conn:
                await conn.execute("DISCARD ALL")
            with app.database.connection_sync() as two:
                two.execute("DISCARD ALL")
        assert await (await work.enqueue(n=9)).wait(20) == 9
    await eventually(lambda: engine.one("SELECT count(*) FROM rota.open_runs") == 0)
