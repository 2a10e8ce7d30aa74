"""An application on databases of tests: it is told everything again, and reset is like new."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import rota
from rota.testing import (
    Clock,
    TestWorker,
    databases,
    on_database,
    reset,
    run_all,
    run_all_sync,
    tick,
    tick_sync,
)
from tests.conftest import load_config
from tests.database import Server
from tests.sql_engine import Engine


def make(url: str) -> rota.App:
    app = rota.App(config=load_config(url, {}), name="bound")

    @app.job(schedules=[rota.every(3600)])
    async def hourly() -> str:
        return "done"

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    app.schedule("nightly", double, cron="0 3 * * *", payload={"n": 1})
    return app


def contents(url: str) -> dict[str, Any]:
    """How many rows each table has, and what of them is not a time or an id."""
    tables = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1"
    )
    with psycopg.connect(url) as conn:
        names = [name for (name,) in conn.execute(tables).fetchall()]
        counts = {
            name: conn.execute(
                sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("rota", name))
            ).fetchone()
            for name in names
        }
        # The rest of it is what the last worker was configured for.
        columns = "clock_offset, has_limits, capped_queues"
        settings = conn.execute(f"SELECT {columns} FROM rota.settings".encode()).fetchone()
        system = conn.execute("SELECT name, is_enabled FROM rota.schedules ORDER BY 1").fetchall()
    return counts | {"settings row": settings, "schedules left": system}


async def test_the_application_moves_and_comes_back(
    database_url: str, server: Server, connect: Any
) -> None:
    app = make(database_url)
    try:
        await app.schedules.list()
        with server.fresh_database() as other:
            with on_database(app, other):
                assert app.database.url == other
                run = await app.runs.enqueue("double", {"n": 3})
                assert [it.result for it in await run_all(app) if it.id == run.id] == [6]
                found = {it.name for it in await app.schedules.list()}
                assert {"hourly", "nightly"} <= found
            assert app.database.url == database_url
        assert await app.runs.list() == []
    finally:
        await app.close()


async def test_reset_is_like_a_new_database(database_url: str, server: Server) -> None:
    with server.fresh_database() as untouched:
        fresh = contents(untouched)
    app = make(database_url)
    try:
        await app.database.open()
        await app.limits.set("few", cap=2, kind="concurrency", queue="default")
        await app.tenants.set("acme", weight=2)
        Clock(app).set(datetime(2031, 1, 1, tzinfo=UTC))
        await app.runs.enqueue("double", {"n": 3})
        await run_all(app)
        reset(app)
        assert contents(database_url) == fresh
        assert Clock(app).now().year < 2031
        run = await app.runs.enqueue("double", {"n": 4})
        assert [it.result for it in await run_all(app) if it.id == run.id] == [8]
    finally:
        await app.close()


async def test_reset_empties_whatever_is_there(
    database_url: str, server: Server, conn: psycopg.Connection[Any]
) -> None:
    engine = Engine(conn)
    with server.fresh_database() as untouched:
        fresh = contents(untouched)
    engine.conn.execute("CREATE TABLE public.orders (id bigint PRIMARY KEY)")
    app = make(database_url)
    try:
        await app.calendars.create("days", {"weekends": False})
        await app.schedules.create("s", "double", every=60, calendar="days", payload={"n": 1})
        await app.schedules.delete("hourly")
        await app.queues.set("capped", max_waiting=5)
        await app.queues.pause("held")
        await app.limits.set("one", cap=1, kind="concurrency", jobs=["double"])
        await app.watches.add("public.orders")
        await app.emit("order.paid", {"n": 1}, key="k")
        await app.runs.enqueue("double", {"n": 1}, queue="capped", key="k", tenant="acme")
        await app.runs.enqueue("double", {"n": 2}, delay=3600)
        await app.runs.enqueue("double", {"n": 3}, queue="held")
        await app.bulk.start("cancel", job="double")
        running = await app.runs.enqueue("hourly")
        engine.claim_one(engine.worker("hourly"), jobs=["hourly"])
        assert await running.state() == "running"
        reset(app)
        assert contents(database_url) == fresh
        engine.conn.execute("INSERT INTO public.orders VALUES (1)")
        assert await app.events.list() == []
        run = await app.runs.enqueue("double", {"n": 4})
        assert [it.result for it in await run_all(app) if it.id == run.id] == [8]
    finally:
        await app.close()


async def test_tick_answers_the_runs_that_it_started(app: rota.App, clock: Clock) -> None:
    @app.job(schedules=[rota.every(3600)])
    async def hourly() -> None: ...

    await app.database.open()
    assert await tick(app) == []
    clock.advance(timedelta(hours=1, seconds=1))
    (run,) = await tick(app)
    assert (run.job, run.state, run.schedule) == ("hourly", "queued", "hourly")
    assert await tick(app) == []
    (ended,) = await run_all(app)
    assert (ended.id, ended.state) == (run.id, "succeeded")


def test_the_same_without_a_loop(app: rota.App, clock: Clock) -> None:
    @app.job(schedules=[rota.every(3600)])
    def hourly() -> None: ...

    clock.advance(timedelta(hours=1, seconds=1))
    assert [run.job for run in tick_sync(app)] == ["hourly"]
    assert [run.state for run in run_all_sync(app)] == ["succeeded"]
    assert run_all_sync(app) == []


async def test_a_worker_in_the_loop(app: rota.App) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    async with TestWorker(app):
        assert await (await double.enqueue(4)).wait(timeout=30) == 8


def test_a_worker_in_a_thread(app: rota.App) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    worker = TestWorker(app)
    for _ in range(2):
        with worker:
            assert double.enqueue_sync(4).wait_sync(timeout=30) == 8


def test_a_worker_that_cannot_start_says_so() -> None:
    app = rota.App("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(rota.DatabaseError), TestWorker(app):
        pass


def test_what_killed_runs_left_is_removed(tmp_path: Path) -> None:
    """Of runs whose processes are all gone, after a while."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    users = {"old": ended.pid, "new": ended.pid, "used": os.getpid()}
    for name, pid in users.items():
        place = tmp_path / f"rota-test-{os.getuid()}-{name}"
        (place / "users").mkdir(parents=True)
        (place / "users" / str(pid)).touch()
        place.with_suffix(".lock").touch()
        if name != "new":
            os.utime(place, (0, 0))
    databases.remove_old_places(tmp_path)
    left = {path.name.rpartition("-")[2] for path in tmp_path.iterdir()}
    assert left == {"new", "new.lock", "used", "used.lock"}
