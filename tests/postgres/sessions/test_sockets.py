"""Connections over TCP that break, freeze and are closed, on both event loops."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
import pytest
import uvloop

from rota.postgres.pipeline import prepared
from rota.postgres.pipeline.prepared import Prepared
from rota.postgres.sessions import connection
from rota.postgres.sessions.connection import NoAnswer
from rota.postgres.sessions.opening import AsyncSession, Session, own
from rota.testing import eventually
from tests.proxy import Proxy

AsyncConn = psycopg.AsyncConnection[Any]
Run = Callable[[Coroutine[Any, Any, None]], None]

DIVIDE = Prepared("divide", "SELECT %(a)s::integer / %(b)s::integer AS q")
# Longer than anything here takes: what ends by it has failed.
LIMIT = 20.0


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    def run(body: Coroutine[Any, Any, None]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(body, LIMIT))

    return run


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an answer for long."""
    monkeypatch.setattr(prepared, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(prepared, "CALL_OFF_SECONDS", 0.2)
    monkeypatch.setattr(connection, "CALL_OFF_SECONDS", 0.2)


async def connect(url: str, answer_seconds: float = LIMIT) -> AsyncConn:
    conn = await AsyncSession.connect(url, **own("test"))
    conn.answer_seconds = answer_seconds
    return conn


def test_a_connection_that_was_ended_while_it_rested(
    run: Run, proxy: Proxy, conn: psycopg.Connection[Any]
) -> None:
    """The server's last word and the reset arrive together: the loop may call only once."""

    async def body() -> None:
        async with await connect(proxy.url) as rested:
            assert await DIVIDE.fetch(rested, {"a": 4, "b": 2}, tuple) == [(2,)]
            conn.execute("SELECT pg_terminate_backend(%s, 5000)", [rested.info.backend_pid])
            await eventually(lambda: proxy.connections == 0)
            with pytest.raises(psycopg.OperationalError):
                await DIVIDE.fetch(rested, {"a": 4, "b": 2}, tuple)
            assert rested.closed

    run(body())


@pytest.mark.usefixtures("short")
def test_an_answer_that_never_comes(run: Run, proxy: Proxy) -> None:
    """By the hot paths and by the driver's cursor: both give up, and leave the connection."""

    async def body() -> None:
        for ask in (by_prepared, by_cursor):
            async with await connect(proxy.url, 0.2) as conn:
                await ask(conn)
                proxy.freeze()
                with pytest.raises(NoAnswer):
                    await ask(conn)
                assert conn.closed
                proxy.heal()

    run(body())


async def by_prepared(conn: AsyncConn) -> None:
    await DIVIDE.fetch(conn, {"a": 4, "b": 2}, tuple)


async def by_cursor(conn: AsyncConn) -> None:
    await conn.execute("SELECT 1")


def test_whoever_is_stopped_more_than_once_leaves_nothing_behind(run: Run, proxy: Proxy) -> None:
    """Nor does a descriptor stay in the loop whose number the next connection gets."""

    async def body() -> None:
        for ask in (by_prepared, by_cursor):
            conn = await connect(proxy.url)
            await ask(conn)
            proxy.freeze()
            task = asyncio.create_task(ask(conn))
            await asyncio.sleep(0)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(task, return_exceptions=True)
            assert conn.closed
            proxy.heal()
            async with await connect(proxy.url) as next_one:
                await ask(next_one)
            del task, conn
            gc.collect()  # the driver's own connection for the cancellation
            await eventually(lambda: proxy.connections == 0)

    run(body())


def test_a_connection_broken_off_under_somebody(run: Run, proxy: Proxy) -> None:
    async def body() -> None:
        for ask in (by_prepared, by_cursor):
            conn = await connect(proxy.url)
            await ask(conn)
            proxy.freeze()
            task = asyncio.create_task(ask(conn))
            await asyncio.sleep(0.01)
            connection.break_off(conn)
            with pytest.raises(psycopg.OperationalError):
                await task
            assert conn.closed
            proxy.heal()
            async with await connect(proxy.url) as next_one:
                await ask(next_one)

    run(body())


def test_threads_do_not_wait_for_ever_either(proxy: Proxy) -> None:
    with Session.connect(proxy.url, **own("test")) as conn:
        conn.answer_seconds = 0.2
        conn.execute("SELECT 1")
        proxy.freeze()
        with pytest.raises(NoAnswer):
            conn.execute("SELECT 1")
        assert conn.closed


def test_the_server_is_told_that_nobody_waits(
    run: Run, proxy: Proxy, conn: psycopg.Connection[Any]
) -> None:
    """It answers, only not in time: the statement is called off and the connection goes on."""

    async def body() -> None:
        async with await connect(proxy.url, 0.5) as late:
            conn.execute("SELECT pg_advisory_lock(1)")
            with pytest.raises(NoAnswer):
                await late.execute("SELECT pg_advisory_lock(1)")
            assert not late.closed
            assert await (await late.execute("SELECT 7")).fetchone() == (7,)
            conn.execute("SELECT pg_advisory_unlock(1)")

    run(body())


def test_the_kernel_is_told_how_long_to_wait(proxy: Proxy) -> None:
    with Session.connect(proxy.url, **own("test")) as conn:
        known = conn.info.get_parameters()
    assert {key: known[key] for key in ("keepalives_idle", "tcp_user_timeout")} == {
        "keepalives_idle": "10",
        "tcp_user_timeout": "10000",
    }
    with Session.connect(proxy.url + "?keepalives_idle=77", **own("test")) as conn:
        assert conn.info.get_parameters()["keepalives_idle"] == "77"
