"""The lease: kept by a blocked loop, lost for good, never taken back late."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

import rota
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_loops


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    """What is told with a heartbeat is told soon."""
    return make_app(**{"worker.lease_seconds": 1.5})


async def test_a_lost_worker_comes_back_under_a_new_identity(app: rota.App, engine: Engine) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    @app.job
    async def slow(ctx: rota.Context) -> int:
        if ctx.attempt == 1:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
        return ctx.attempt

    run = await slow.enqueue()
    async with app.worker() as worker:
        await asyncio.wait_for(started.wait(), 20)
        old = worker.id
        assert old is not None
        engine.lose(old)
        engine.rescue()
        assert await run.wait(20) == 2
        assert cancelled.is_set()
        assert worker.id is not None
        assert worker.id > old
    assert engine.attempt_states(run.id) == ["lost", "succeeded"]
    states = {row["id"]: row["state"] for row in engine.rows("SELECT id, state FROM rota.workers")}
    assert states[old] == "lost"
    assert set(states.values()) == {"lost", "gone"}


async def test_a_late_finish_changes_nothing(app: rota.App, engine: Engine) -> None:
    """A thread cannot be cancelled: it returns long after its run went to somebody else."""
    started, go_on, returned = threading.Event(), threading.Event(), threading.Event()

    @app.job(executor="thread")
    def slow(ctx: rota.Context) -> str:
        if ctx.attempt == 1:
            started.set()
            go_on.wait(30)
            returned.set()
            return "late"
        return "in time"

    run = await slow.enqueue()
    async with app.worker() as worker:
        await eventually(started.is_set)
        assert worker.id is not None
        engine.lose(worker.id)
        engine.rescue()
        assert await run.wait(30) == "in time"
        before = engine.run(run.id), engine.attempts(run.id)
        go_on.set()
        await eventually(returned.is_set)
    assert (engine.run(run.id), engine.attempts(run.id)) == before


async def test_a_blocked_loop_keeps_its_lease(
    app: rota.App, engine: Engine, database_url: str
) -> None:
    """The body sits on the event loop for longer than the lease, and says so in the table."""

    @app.job(max_attempts=1)
    async def block(ctx: rota.Context) -> str:
        with psycopg.connect(database_url, autocommit=True) as conn:
            watching = Engine(conn)
            eventually_sync(
                lambda: watching.one("SELECT is_stuck FROM rota.workers") is True, timeout=30
            )
            assert watching.mark_lost() == []
            return str(watching.one("SELECT state FROM rota.workers"))

    run = await block.enqueue()
    async with app.worker() as worker:
        first = worker.id
        assert await run.wait(40) == "live"
        assert worker.id == first
        await eventually(lambda: engine.one("SELECT is_stuck FROM rota.workers") is False)
    assert engine.attempt_states(run.id) == ["succeeded"]


async def test_a_blocked_loop_gives_back_what_it_has_not_started(
    make_app: MakeApp, engine: Engine, database_url: str
) -> None:
    app = make_app(worker={"concurrency": 1}, **{"worker.lease_seconds": 1.5})

    @app.job
    async def fast() -> None: ...

    @app.job
    async def block(n: int) -> int:
        """Only the first of them blocks: until nothing else is claimed by its worker."""
        if n:
            return n
        with psycopg.connect(database_url, autocommit=True) as conn:
            watching = Engine(conn)
            running = (
                "SELECT count(*) FROM rota.open_runs WHERE state = 'running' AND job = 'block'"
            )
            eventually_sync(lambda: watching.one(running) == 1, timeout=30)
        return n

    await app.enqueue_many([fast.call() for _ in range(2000)])
    runs = await app.enqueue_many([block.call(n=n) for n in range(100)])
    async with app.worker():
        for run in runs:
            await run.wait(40)
    assert engine.one("SELECT count(*) FROM rota.past_attempts") == 0


async def test_a_broken_connection_loses_no_run(app: rota.App, engine: Engine) -> None:
    """Every connection of the worker is cut, again and again, while it works."""

    @app.job
    async def work(n: int) -> int:
        await asyncio.sleep(0.001)
        return n

    runs = await app.enqueue_many([work.call(n=n) for n in range(500)])
    cut = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname ="
        " current_database() AND application_name LIKE 'rota worker%%'"
    )

    def left() -> int:
        return int(engine.one("SELECT count(*) FROM rota.open_runs"))

    async with app.worker():
        for below in (450, 300, 150):
            await eventually(lambda most=below: left() <= most)
            engine.one(cut)
        await eventually(lambda: left() == 0, timeout=60)
    for run in runs:
        assert engine.attempt_states(run.id) == ["succeeded"]
