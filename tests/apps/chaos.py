"""Jobs and accidents for the tests that kill workers. ROTA_CHAOS names the accident that this
process will have; none: it lives."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import psycopg

import rota
from rota.engine.attempts.runner import Runner
from rota.engine.executors.transaction import AttemptTransaction
from rota.postgres.pipeline.exchange import Exchange
from tests.apps.making import make_app

app = make_app()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def write_effect(ctx: rota.Context) -> None:
    """Seen by everybody at once, whatever becomes of the attempt."""
    url = os.environ["ROTA_TEST_DATABASE"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute("INSERT INTO effects VALUES (%s, %s)", [ctx.run_id, ctx.attempt])


@app.job
async def at_least_once(ctx: rota.Context) -> int:
    await write_effect(ctx)
    return ctx.attempt


@app.job
async def exactly_once(ctx: rota.Context) -> int:
    async with ctx.transaction() as conn:
        await conn.execute("INSERT INTO effects VALUES (%s, %s)", [ctx.run_id, ctx.attempt])
    return ctx.attempt


@app.job
async def exactly_once_by_orm(ctx: rota.Context) -> int:
    """The same in a transaction of SQLAlchemy's."""
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

    url = os.environ["ROTA_TEST_DATABASE"].replace("postgresql:", "postgresql+psycopg:")
    async with ctx.transaction(async_sessionmaker(create_async_engine(url))) as session:
        row = {"run": ctx.run_id, "attempt": ctx.attempt}
        await session.execute(text("INSERT INTO effects VALUES (:run, :attempt)"), row)
    return ctx.attempt


@app.job
async def hold(ctx: rota.Context) -> int:
    """The first attempt says that it runs, and goes on when the table `gate` has a row."""
    await write_effect(ctx)
    while ctx.attempt == 1 and not await is_open():  # noqa: ASYNC110 - the gate is elsewhere
        await asyncio.sleep(0.02)
    return ctx.attempt


async def is_open() -> bool:
    url = os.environ["ROTA_TEST_DATABASE"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        return await (await conn.execute("SELECT FROM gate")).fetchone() is not None


@app.job(max_attempts=2)
async def poison() -> None:
    die()


@app.job
async def stubborn_poison() -> None:
    die()


@app.job
def poison_thread() -> None:
    die()


@app.job
async def long(ctx: rota.Context) -> int:
    """Says that it runs and in which process, and goes on when the table `gate` has a row."""
    await write_effect(ctx)
    ctx.log.info("running", pid=os.getpid())
    while not await is_open():  # noqa: ASYNC110 - the gate is elsewhere
        await asyncio.sleep(0.05)
    return os.getpid()


@app.job(max_attempts=2)
async def long_twice(ctx: rota.Context) -> int:
    return await long.definition.function(ctx)


@app.job(max_attempts=2)
def sync_effect(ctx: rota.Context, is_deadly: bool = False) -> int:
    """Commits with its completion, in whichever process it runs."""
    with ctx.transaction_sync() as conn:
        conn.execute("INSERT INTO effects VALUES (%s, %s)", [ctx.run_id, ctx.attempt])
        if ctx.attempt == 1 or is_deadly:
            die()
    return os.getpid()


@app.job(max_attempts=2)
async def async_effect(ctx: rota.Context, is_deadly: bool = False) -> int:
    async with ctx.transaction() as conn:
        await conn.execute("INSERT INTO effects VALUES (%s, %s)", [ctx.run_id, ctx.attempt])
        if ctx.attempt == 1 or is_deadly:
            die()
    return os.getpid()


@app.job
async def quick(n: int) -> int:
    await asyncio.sleep(0.001)
    return n


# The accidents.


async def _die_instead(*_: Any, **__: Any) -> None:
    die()


_exchange = Exchange.exchange


async def _die_with_ends(feed: Exchange, ends: Any, *rest: Any, **options: Any) -> Any:
    if ends:
        die()
    return await _exchange(feed, ends, *rest, **options)


match os.environ.get("ROTA_CHAOS"):
    case "before the body":
        Runner.run = _die_instead  # type: ignore[method-assign]
    case "before the flush":
        Exchange.exchange = _die_with_ends  # type: ignore[method-assign, assignment]
    case "before the commit":
        AttemptTransaction.complete = _die_instead  # type: ignore[method-assign]
