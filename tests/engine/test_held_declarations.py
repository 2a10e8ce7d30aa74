"""An open transaction on what code declares: processes start, and store it when that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import rota
from rota.testing.patience import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
# What each release declares, as the database stores it.
STORED = """
SELECT j.priority, l.cap, q.max_waiting, s.interval_seconds AS seconds
FROM rota.jobs j, rota.limits l, rota.queues q, rota.schedules s
WHERE j.name = 'work' AND l.name = 'few' AND q.name = 'mail' AND s.name = 'often'
"""
HOLDS = {
    "job": "UPDATE rota.jobs SET description = 'x' WHERE name = 'work'",
    "limit": "UPDATE rota.limits SET burst = NULL",
    "queue": "SELECT rota.pause_queue('mail')",
    "schedule": "UPDATE rota.schedules SET description = 'x' WHERE name = 'often'",
    "applications": "SELECT FROM rota.job_applications FOR UPDATE",
    "signatures": "SELECT FROM rota.signatures FOR UPDATE",
    "another job is renamed": "SELECT rota.rename_job('old', 'new')",
}


@pytest.fixture
def holder(connect: Callable[..., Connection]) -> Iterator[Connection]:
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


async def old(a: int = 0) -> str:
    return "done"


async def new(a: int = 0, b: int = 0) -> str:
    return "done"


def release(make_app: MakeApp, number: int) -> tuple[rota.App, Any]:
    app = make_app()
    options: Any = {"priority": number, "limits": rota.concurrency(number, name="few")}
    work = app.job(name="work", **options)(old if number == 1 else new)
    app.queue("mail", max_waiting=number)
    app.schedule("often", work, every=3600 + number)
    return app, work


def stored(engine: Engine) -> set[Any]:
    (row,) = engine.rows(STORED)
    return {row["priority"], row["cap"], row["max_waiting"], row["seconds"] - 3600}


@pytest.mark.parametrize("held", HOLDS)
async def test_a_release_starts_beside_it(
    make_app: MakeApp,
    engine: Engine,
    holder: Connection,
    held: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine.job("old")
    before, _ = release(make_app, 1)
    await before.database.open()
    holder.execute(HOLDS[held].encode())
    after, work = release(make_app, 2)
    async with asyncio.timeout(60):
        await after.database.open()
        async with after, after.worker():
            assert await (await work.enqueue()).wait(timeout=30) == "done"
            assert stored(engine) != {2}
            holder.rollback()
            await eventually(lambda: _is_stored(engine), timeout=60)


def _is_stored(engine: Engine) -> None:
    assert stored(engine) == {2}


async def test_a_process_without_a_worker_says_what_it_left(
    make_app: MakeApp, engine: Engine, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    before, _ = release(make_app, 1)
    await before.database.open()
    holder.execute("UPDATE rota.schedules SET description = 'x' WHERE name = 'often'")
    after, work = release(make_app, 2)
    await after.database.open()
    assert engine.state((await work.enqueue()).id) == "queued"
    assert [message for message in caplog.messages if "an open transaction" in message] != []


async def test_a_job_that_is_declared_afterwards_is_registered_with_the_rest(
    make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    engine.job("old")
    holder.execute("SELECT rota.rename_job('old', 'new')")
    app, work = release(make_app, 1)
    await app.database.open()
    with pytest.raises(rota.UnknownJob):
        await work.enqueue()
    holder.rollback()
    later = app.job(name="later")(old)
    assert engine.state((await later.enqueue()).id) == "queued"
    assert engine.state((await work.enqueue()).id) == "queued"
