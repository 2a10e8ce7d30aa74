"""Pools: who waits, who connects, and what happens when the server takes nobody in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from rota.postgres.sessions import connection_pools
from rota.postgres.sessions.connection import AsyncConn
from rota.postgres.sessions.connection_pools import AllInUse, AsyncPool
from rota.postgres.sessions.opening import AsyncSession, own

Connect = Callable[[], Awaitable[AsyncConn]]


@pytest.fixture
def opened() -> list[AsyncConn]:
    return []


@pytest.fixture
def connect(database_url: str, opened: list[AsyncConn]) -> Connect:
    async def connect() -> AsyncConn:
        opened.append(await AsyncSession.connect(database_url, **own("rota test")))
        return opened[-1]

    return connect


@pytest.fixture
def pool(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> AsyncPool:
    monkeypatch.setattr(connection_pools, "_PATIENCE", (60.0, 60.0))
    pool = AsyncPool(connect)
    pool.is_sparing = True
    return pool


async def test_one_serves_many_who_are_patient(pool: AsyncPool, opened: list[AsyncConn]) -> None:
    async def use(_: int) -> None:
        conn = await pool.get()
        await conn.execute("SELECT 1")
        await pool.put(conn)

    await asyncio.gather(*map(use, range(30)))
    assert len(opened) == 1
    pool.close()


async def test_whoever_has_waited_long_enough_opens_another_one(
    pool: AsyncPool, opened: list[AsyncConn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pools, "_PATIENCE", (0.01, 60.0))
    monkeypatch.setattr(connection_pools, "_UNHURRIED", 0.02)
    first = await pool.get()
    second = await pool.get(is_hurried=False)
    assert len(opened) == 2
    # The more are lent already, the longer: the next one gets what comes back.
    waiting = asyncio.create_task(pool.get())
    await asyncio.sleep(0)
    await pool.put(second)
    assert await waiting is second
    assert len(opened) == 2
    await pool.put(first)
    await pool.put(second)
    pool.close()


async def test_one_that_is_not_sparing_does_not_wait(
    connect: Connect, opened: list[AsyncConn]
) -> None:
    pool = AsyncPool(connect)
    lent = [await pool.get() for _ in range(3)]
    assert len(opened) == 3
    for conn in lent:
        await pool.put(conn)
    pool.close()


async def test_a_broken_one_makes_room_for_another(
    pool: AsyncPool, opened: list[AsyncConn]
) -> None:
    first = await pool.get()
    waiting = asyncio.create_task(pool.get())
    await asyncio.sleep(0)
    first.pgconn.finish()
    await pool.put(first)
    second = await waiting
    assert [first, second] == opened
    await pool.put(second)
    pool.close()


async def test_who_gives_up_waiting_takes_nothing_along(
    pool: AsyncPool, opened: list[AsyncConn]
) -> None:
    first = await pool.get()
    waiting = asyncio.create_task(pool.get())
    await asyncio.sleep(0)
    returning = asyncio.create_task(pool.put(first))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, returning, return_exceptions=True)
    assert await pool.get() is first
    assert len(opened) == 1
    await pool.put(first)
    pool.close()


async def test_a_server_that_takes_nobody_in_is_used_by_what_is_open(
    connect: Connect, opened: list[AsyncConn]
) -> None:
    async def once() -> AsyncConn:
        if opened:
            raise psycopg.OperationalError("FATAL:  sorry, too many clients already")
        return await connect()

    pool = AsyncPool(once)
    first = await pool.get()
    waiting = asyncio.create_task(pool.get())
    await asyncio.sleep(0)
    await pool.put(first)
    assert await waiting is first
    first.pgconn.finish()
    await pool.put(first)
    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        await pool.get()
    pool.close()


async def test_nobody_waits_for_ever(pool: AsyncPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pools, "SIZE", 1)
    monkeypatch.setattr(connection_pools, "_WAIT_SECONDS", 0.01)
    conn = await pool.get()
    with pytest.raises(AllInUse):
        await pool.get()
    await pool.put(conn)
    pool.close()


async def test_all_but_one_are_given_back_after_a_rest(
    connect: Connect, opened: list[AsyncConn], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = AsyncPool(connect)
    lent = [await pool.get() for _ in range(3)]
    for conn in lent:
        await pool.put(conn)
    monkeypatch.setattr(connection_pools, "_IDLE_SECONDS", 0.0)
    await pool.put(await pool.get())
    assert sum(not conn.closed for conn in opened) == 1
    pool.close()


async def test_those_who_wait_at_once_do_not_all_open_one(
    pool: AsyncPool, opened: list[AsyncConn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pools, "_PATIENCE", (0.01, 60.0))
    first = await pool.get()
    waiting = [asyncio.create_task(pool.get()) for _ in range(20)]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(opened) == 2
    await pool.put(first)
    while done:
        for task in done:
            waiting.remove(task)
            await pool.put(task.result())
        done = set()
        if waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(opened) == 2
    pool.close()


async def test_room_that_a_cancelled_one_was_told_of_is_the_next_ones(
    pool: AsyncPool, opened: list[AsyncConn]
) -> None:
    conn = await pool.get()
    first, second = (asyncio.create_task(pool.get()) for _ in range(2))
    await asyncio.sleep(0)
    conn.pgconn.finish()
    await pool.put(conn)  # it is broken: the first may open another
    first.cancel()
    assert await asyncio.wait_for(second, 20) is opened[1]
    await pool.put(opened[1])
    pool.close()
