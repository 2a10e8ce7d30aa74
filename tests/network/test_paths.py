"""The helpers with which tests reach their database as users do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually_sync
from tests.proxy import Proxy
from tests.workers import WorkerProcess

BIG = "SELECT repeat('x', 100000)"
Conn = psycopg.Connection[Any]


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Conn]:
    with closing(psycopg.connect(proxy.url, autocommit=True)) as conn:
        yield conn


def test_it_forwards(far: Conn, proxy: Proxy) -> None:
    assert far.execute(BIG).fetchone() == ("x" * 100_000,)
    assert proxy.connections == 1
    far.close()
    eventually_sync(lambda: proxy.connections == 0)


def test_a_reset_reaches_both_sides(far: Conn, proxy: Proxy, conn: Conn) -> None:
    pid = far.info.backend_pid
    assert proxy.reset() == 1
    with pytest.raises(psycopg.OperationalError):
        far.execute("SELECT 1")
    eventually_sync(lambda: not is_there(conn, pid))


def test_half_open_tells_the_server_alone(far: Conn, proxy: Proxy, conn: Conn) -> None:
    pid = far.info.backend_pid
    assert proxy.half_open() == 1
    eventually_sync(lambda: not is_there(conn, pid))
    far.pgconn.send_query(b"SELECT 1")
    far.pgconn.consume_input()
    assert far.pgconn.is_busy()
    assert proxy.reset_half_open() == 1
    with pytest.raises(psycopg.OperationalError):
        eventually_sync(lambda: far.pgconn.consume_input())


async def test_what_was_frozen_arrives(proxy: Proxy) -> None:
    async with await psycopg.AsyncConnection.connect(proxy.url, autocommit=True) as far:
        proxy.freeze()
        asked = asyncio.ensure_future(far.execute("SELECT 1"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asked), 0.2)
        proxy.heal()
        assert await (await asked).fetchone() == (1,)


def test_a_cut_comes_in_the_middle_of_a_message(far: Conn, proxy: Proxy) -> None:
    assert proxy.cut(after=50_000) == 1
    with pytest.raises(psycopg.OperationalError):
        far.execute(BIG)
    assert far.closed


def test_refused_until_healed(far: Conn, proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(proxy.url)
    assert far.execute("SELECT 1").fetchone() == (1,)
    proxy.heal()
    psycopg.connect(proxy.url).close()


def test_delayed(far: Conn, proxy: Proxy) -> None:
    proxy.delay(0.1)
    loop = asyncio.new_event_loop()
    began = loop.time()
    far.execute("SELECT 1")
    assert loop.time() - began >= 0.2
    loop.close()


async def test_applications_are_behind_it(proxy: Proxy, app: rota.App) -> None:
    assert await app.runs.list() == []
    assert proxy.connections > 0


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_workers_have_the_loop_that_was_asked_for(
    proxy: Proxy, worker_process: Callable[..., WorkerProcess], conn: Conn, loop: str
) -> None:
    worker = worker_process("tests.apps.basic:app", loop=loop)
    assert proxy.connections > 0
    run = conn.execute("SELECT rota.enqueue('which_loop')").fetchone()
    assert run is not None

    def module() -> Any:
        return conn.execute("SELECT result FROM rota.runs WHERE id = %s", run).fetchone()

    eventually_sync(lambda: module() != (None,), 30)
    assert str(module()[0]).startswith("uvloop" if loop == "uvloop" else "asyncio"), worker.output


@pytest.mark.both_loops
async def test_both_loops(request: pytest.FixtureRequest) -> None:
    module = type(asyncio.get_running_loop()).__module__
    assert module.split(".")[0] in request.node.name
    assert "uvloop" in sys.modules


@pytest.mark.distribution
def test_the_distributions_server(conn: Conn, app: rota.App) -> None:
    asked = "SELECT current_setting('jit'), current_setting('is_superuser'), inet_server_port() > 0"
    assert conn.execute(asked).fetchone() == ("on", "off", True)
    assert conn.execute("SELECT rota.now() IS NOT NULL").fetchone() == (True,)


def is_there(conn: Conn, pid: int) -> bool:
    return conn.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]).rowcount == 1
