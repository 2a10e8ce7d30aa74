"""ctx.transaction(): the effect and the completion commit together, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rota
from rota.testing import eventually, run_due
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_loops


@pytest.fixture(autouse=True)
def effects(engine: Engine) -> None:
    engine.conn.execute("CREATE TABLE effects (n int)")
    engine.conn.execute(
        "CREATE TABLE checked (n int UNIQUE DEFERRABLE INITIALLY DEFERRED, words text)"
    )


def count(engine: Engine, table: str = "effects") -> int:
    return int(engine.one(f"SELECT count(*) FROM {table}"))


def declare(app: rota.App, executor: str, **options: Any) -> Any:
    """Writes n, then does what it is told."""
    if executor == "async":

        @app.job(**options)
        async def write(ctx: rota.Context, n: int, then: str = "return") -> int:
            async with ctx.transaction() as conn:
                await conn.execute("INSERT INTO effects VALUES (%s)", [n])
            if then == "raise":
                raise LookupError("after the block")
            return n

        return write

    @app.job(executor="thread", **options)
    def write_sync(ctx: rota.Context, n: int, then: str = "return") -> int:
        with ctx.transaction_sync() as conn:
            conn.execute("INSERT INTO effects VALUES (%s)", [n])
        if then == "raise":
            raise LookupError("after the block")
        return n

    return write_sync


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_both_commit(app: rota.App, engine: Engine, executor: str) -> None:
    write = declare(app, executor)
    run = await write.enqueue(n=7)
    await run_due(app)
    assert await run.wait(1) == 7
    assert engine.one("SELECT n FROM effects") == 7
    assert engine.attempt_states(run.id) == ["succeeded"]


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_neither_when_the_handler_raises(
    app: rota.App, engine: Engine, executor: str
) -> None:
    write = declare(app, executor, max_attempts=1)
    run = await write.enqueue(n=7, then="raise")
    await run_due(app)
    assert engine.state(run.id) == "failed"
    assert count(engine) == 0


async def test_nothing_is_seen_before_the_handler_returns(app: rota.App, engine: Engine) -> None:
    written, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (1)")
        written.set()
        await go_on.wait()

    run = await write.enqueue()
    async with app.worker():
        await asyncio.wait_for(written.wait(), 20)
        assert count(engine) == 0
        go_on.set()
        await run.wait(20)
    assert count(engine) == 1


async def test_blocks_are_savepoints_of_one_transaction(app: rota.App, engine: Engine) -> None:
    @app.job
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (1)")
        try:
            async with ctx.transaction() as conn:
                await conn.execute("INSERT INTO effects VALUES (2)")
                raise LookupError
        except LookupError:
            pass
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (3)")

    run = await write.enqueue()
    await run_due(app)
    await run.wait(1)
    assert [row["n"] for row in engine.rows("SELECT n FROM effects ORDER BY n")] == [1, 3]


async def test_a_commit_by_hand_is_refused(app: rota.App, engine: Engine) -> None:
    @app.job(max_attempts=1)
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (1)")
            await conn.commit()

    run = await write.enqueue()
    await run_due(app)
    assert engine.state(run.id) == "failed"
    assert count(engine) == 0


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_a_deferred_constraint_fails_the_attempt(
    app: rota.App, engine: Engine, executor: str
) -> None:
    engine.conn.execute("INSERT INTO checked VALUES (1)")
    if executor == "async":

        @app.job(max_attempts=1)
        async def write(ctx: rota.Context) -> None:
            async with ctx.transaction() as conn:
                await conn.execute("INSERT INTO checked VALUES (1)")
    else:

        @app.job(max_attempts=1, executor="thread")
        def write(ctx: rota.Context) -> None:
            with ctx.transaction_sync() as conn:
                conn.execute("INSERT INTO checked VALUES (1)")

    run = await write.enqueue()
    await run_due(app)
    (attempt,) = engine.attempts(run.id)
    assert (attempt["state"], "UniqueViolation" in attempt["error_type"]) == ("failed", True)
    assert count(engine, "checked") == 1


async def test_a_lost_lease_takes_the_effect_with_it(app: rota.App, engine: Engine) -> None:
    written, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def write(ctx: rota.Context) -> int:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (%s)", [ctx.attempt])
        if ctx.attempt == 1:
            written.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                await asyncio.wait_for(go_on.wait(), 20)
        return ctx.attempt

    run = await write.enqueue()
    async with app.worker() as worker:
        await asyncio.wait_for(written.wait(), 20)
        assert worker.id is not None
        engine.lose(worker.id)
        assert engine.rescue() == {run.id: "requeued"}
        go_on.set()
        assert await run.wait(20) == 2
    assert [row["n"] for row in engine.rows("SELECT n FROM effects")] == [2]
    assert engine.attempt_states(run.id) == ["lost", "succeeded"]


async def test_somebodys_lock_on_the_run_is_waited_for(
    app: rota.App, engine: Engine, connect: Any
) -> None:
    written, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (1)")
        written.set()
        await go_on.wait()

    run = await write.enqueue()
    locker = connect(autocommit=False)
    async with app.worker():
        await asyncio.wait_for(written.wait(), 20)
        locker.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [run.id])
        go_on.set()

        def waits() -> bool:
            return bool(
                engine.one(
                    "SELECT cardinality(pg_blocking_pids(pid)) > 0 FROM pg_stat_activity"
                    " WHERE application_name LIKE 'rota run%%' AND datname = current_database()"
                )
            )

        await eventually(waits)
        locker.rollback()
        await run.wait(20)
    assert count(engine) == 1


async def test_both_kinds_at_once_are_refused(app: rota.App, engine: Engine) -> None:
    @app.job(max_attempts=1)
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction():
            with ctx.transaction_sync():
                pass

    run = await write.enqueue()
    await run_due(app)
    assert "use one of the two" in engine.attempts(run.id)[0]["error"]


async def test_an_enqueue_can_be_part_of_it(app: rota.App, engine: Engine) -> None:
    @app.job
    async def follow(n: int) -> int:
        return n

    @app.job(max_attempts=2)
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await follow.options(connection=conn).enqueue(n=ctx.attempt)
        if ctx.attempt == 1:
            raise LookupError

    await write.enqueue()
    await run_due(app)
    followed = engine.rows("SELECT payload, state FROM rota.runs WHERE job = 'follow'")
    assert followed == [{"payload": {"n": 2}, "state": "succeeded"}]
