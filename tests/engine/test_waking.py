"""Wake-ups: with a poll of a minute, only a call can explain that a run starts now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.claiming import calls
from rota.engine.listener import Listener
from rota.postgres.statements import Statements
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine, listen_to_all

pytestmark = pytest.mark.both_loops

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def app(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> rota.App:
    # However slow this machine is: what settles, settles by what happens.
    monkeypatch.setattr(calls, "_SETTLE_LIMIT", 600.0)
    return make_app(
        runs={"backoff_base_seconds": 0.1, "backoff_jitter_seconds": 0},
        **{"worker.poll_seconds": 60, "worker.lease_seconds": 30},
    )


async def until_waiting(engine: Engine) -> None:
    await eventually(lambda: engine.one("SELECT bool_and(is_waiting) FROM rota.workers") is True)


async def test_an_enqueue_calls(app: rota.App, engine: Engine) -> None:
    @app.job
    async def work(n: int) -> int:
        return n

    async with app.worker():
        for n in range(3):
            await until_waiting(engine)
            assert await (await work.enqueue(n=n)).wait(20) == n


async def test_plain_sql_calls(app: rota.App, engine: Engine) -> None:
    @app.job
    async def work() -> None: ...

    async with app.worker():
        await until_waiting(engine)
        run = engine.one("SELECT rota.enqueue('work')")
        await eventually(lambda: engine.state(run) == "succeeded")


async def test_an_enqueuer_that_saw_no_flag_is_not_forgotten(
    app: rota.App, engine: Engine, connect: Connect
) -> None:
    """It read the flag before the worker raised it, and commits after that: nobody calls."""

    @app.job
    async def work() -> None: ...

    await app.database.open()
    caller = Engine(connect(autocommit=False))
    run = caller.enqueue("work")
    async with app.worker():
        await until_waiting(engine)
        caller.conn.commit()
        await eventually(lambda: engine.state(run) == "succeeded")


def test_whoever_could_not_see_the_flag_has_a_lower_number(
    engine: Engine, connect: Connect
) -> None:
    """An enqueue that began while the flag was being committed has a higher id than the flag, and
    none after it has ended: the next number is above it all the same."""
    ask = Statements("rota").get("workers/next_xid")
    mine = "SELECT pg_current_xact_id()::text::bigint"
    flag, caller = Engine(connect(autocommit=False)), Engine(connect(autocommit=False))
    engine.job("work")
    assert flag.one(mine) < caller.one(mine)
    caller.enqueue("work")
    flag.conn.commit()
    assert engine.one(ask) > caller.one(mine)


def test_an_older_transaction_with_runs_is_seen_until_it_ends(
    engine: Engine, connect: Connect
) -> None:
    """However long it takes; others do not matter, nor do those that began later."""
    engine.job("work")
    ask = Statements("rota").get("workers/late_enqueues")
    older, stranger, younger = (Engine(connect(autocommit=False)) for _ in range(3))
    older.enqueue("work")
    stranger.one("SELECT pg_current_xact_id()")
    xid = engine.one("SELECT pg_current_xact_id()::text::bigint")
    younger.enqueue("work")

    def is_open() -> bool:
        return bool(engine.conn.execute(ask, {"xid": xid % 2**32}).fetchall())

    assert is_open()
    if engine.one("SHOW max_prepared_transactions") != "0":
        older.conn.execute(f"PREPARE TRANSACTION 'older {xid}'".encode())
        assert is_open()
        engine.conn.execute(f"COMMIT PREPARED 'older {xid}'".encode())
    older.conn.commit()
    assert not is_open()


async def test_a_snapshot_that_cannot_see_the_flag_calls_always(
    app: rota.App, engine: Engine, connect: Connect
) -> None:
    @app.job
    async def work() -> None: ...

    await app.database.open()
    caller = Engine(connect(autocommit=False))
    caller.conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    assert caller.one("SELECT count(*) FROM rota.workers") == 0
    async with app.worker():
        await until_waiting(engine)
        run = caller.enqueue("work")
        caller.conn.commit()
        await eventually(lambda: engine.state(run) == "succeeded")


def test_nobody_calls_when_nobody_waits(engine: Engine, connect: Connect) -> None:
    engine.job("work")
    hearing, caller = connect(), Engine(connect(autocommit=False))
    listen_to_all(hearing)
    engine.enqueue(queue="quiet")
    caller.conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    caller.enqueue(queue="loud")
    caller.conn.commit()
    (call,) = hearing.notifies(timeout=20, stop_after=1)
    assert call.payload == "queue loud"


async def test_a_killed_listener_listens_again(app: rota.App, engine: Engine) -> None:
    @app.job
    async def work(n: int) -> int:
        return n

    listeners = (
        "SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name = 'rota listener'"
        " AND datname = current_database() AND query LIKE 'LISTEN%%'"
    )
    async with app.worker():
        await until_waiting(engine)
        (old,) = engine.one(listeners)
        engine.one("SELECT pg_terminate_backend(%s)", old)
        await eventually(lambda: (engine.one(listeners) or [old]) != [old])
        await until_waiting(engine)
        assert await (await work.enqueue(n=1)).wait(20) == 1
        await until_waiting(engine)
        assert await (await work.enqueue(n=2)).wait(20) == 2


async def test_a_short_delay_wakes_the_promoter(app: rota.App, engine: Engine) -> None:
    @app.job
    async def work() -> str:
        return "done"

    async with app.worker():
        await until_waiting(engine)
        assert await (await work.options(delay=0.3).enqueue()).wait(20) == "done"


async def test_a_retry_wakes_the_promoter(app: rota.App, engine: Engine) -> None:
    @app.job
    async def work(ctx: rota.Context) -> int:
        if ctx.attempt == 1:
            raise LookupError
        return ctx.attempt

    async with app.worker():
        await until_waiting(engine)
        assert await (await work.enqueue()).wait(20) == 2


async def test_a_cancel_calls(app: rota.App, engine: Engine) -> None:
    started = asyncio.Event()

    @app.job
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await work.enqueue()
    async with app.worker():
        await asyncio.wait_for(started.wait(), 20)
        await run.cancel()
        with pytest.raises(rota.RunFailed):
            await run.wait(20)


async def test_a_cancel_before_it_listens_is_found(
    app: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker starts with the runs; that it listens comes a moment later."""
    started = asyncio.Event()
    listeners: list[Listener] = []
    begin = Listener.start
    monkeypatch.setattr(Listener, "start", lambda self: listeners.append(self))

    @app.job
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await work.enqueue()
    async with app.worker():
        await asyncio.wait_for(started.wait(), 20)
        await run.cancel()
        begin(listeners[0])
        with pytest.raises(rota.RunFailed):
            await run.wait(20)


async def test_every_one_of_many_single_enqueues_is_heard(app: rota.App, engine: Engine) -> None:
    """Rates go over the threshold where a worker polls instead, and back."""

    @app.job
    async def work(n: int) -> None: ...

    def none_left() -> bool:
        return bool(engine.one("SELECT count(*) = 0 FROM rota.open_runs"))

    async with app.worker():
        for burst in range(3):
            await asyncio.gather(*(work.enqueue(n=n) for n in range(200)))
            await eventually(none_left, timeout=40)
            if burst:
                await until_waiting(engine)


async def test_a_change_of_schedules_wakes_the_scheduler(make_app: MakeApp, engine: Engine) -> None:
    """It sleeps for an hour by itself: made, edited and resumed by plain SQL."""
    app = make_app(scheduler={"tick_seconds": 3600})

    @app.job
    async def work() -> None: ...

    def has_run(times: int) -> bool:
        ran = "SELECT count(*) FROM rota.occurrences WHERE schedule = 's' AND success"
        return bool(engine.one(ran) >= times)

    async with app.worker():
        await eventually(lambda: engine.one("SELECT bool_and(is_waiting) FROM rota.workers"))
        engine.rows("INSERT INTO rota.schedules (name, job, run_at) VALUES ('s', 'work', now())")
        await eventually(lambda: has_run(1))
        engine.rows("SELECT rota.pause_schedule('s')")
        engine.rows(
            "UPDATE rota.schedules SET run_at = NULL, interval_seconds = 1 WHERE name = 's'"
        )
        engine.rows("SELECT rota.resume_schedule('s')")
        await eventually(lambda: has_run(2))
