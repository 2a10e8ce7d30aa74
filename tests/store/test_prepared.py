"""Statements past the driver's cursor behave as those through it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from rota.store.prepared import Prepared
from rota.testing import eventually

AsyncConn = psycopg.AsyncConnection[Any]

DIVIDE = Prepared("divide", "SELECT %(a)s::integer / %(b)s::integer AS q, %(a)s::text AS t")


async def test_rows_come_as_what_is_made_of_them(aconn: AsyncConn) -> None:
    assert await DIVIDE.fetch(aconn, {"a": 7, "b": 2}, tuple) == [(3, "7")]
    assert await DIVIDE.fetch(aconn, {"a": None, "b": 2, "unused": 1}, list) == [[None, None]]


async def test_text_is_a_value_whatever_it_holds(aconn: AsyncConn) -> None:
    echo = Prepared("echo", "SELECT %(text)s::text")
    for text in ["", "it's", '{"a": "\\u00e9"}', "日本", "$1; DROP TABLE x"]:
        assert await echo.fetch(aconn, {"text": text}, tuple) == [(text,)]


async def test_every_connection_prepares_for_itself(aconn: AsyncConn, database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        for conn in (aconn, other, aconn, other):
            assert await DIVIDE.fetch(conn, {"a": 4, "b": 2}, tuple) == [(2, "4")]


async def test_an_error_is_the_drivers_and_leaves_the_connection_usable(aconn: AsyncConn) -> None:
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await DIVIDE.fetch(aconn, {"a": 1, "b": 0}, tuple)
        assert await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple) == [(1, "1")]
    with pytest.raises(psycopg.errors.SyntaxError):
        await Prepared("wrong", "SELEC 1").fetch(aconn, {}, tuple)
    assert await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple) == [(1, "1")]


async def test_a_cancelled_wait_leaves_the_connection_usable(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("SELECT pg_advisory_lock(1)")
    lock = Prepared("lock", "SELECT pg_advisory_lock(%(n)s::bigint)::text")
    waiting = asyncio.create_task(lock.fetch(aconn, {"n": 1}, tuple))
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"
    pid = aconn.info.backend_pid
    await eventually(lambda: conn.execute(query, [pid]).fetchone() == (1,))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple) == [(1, "1")]


async def test_a_lost_server_is_an_operational_error(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple)
    conn.execute("SELECT pg_terminate_backend(%s, 5000)", [aconn.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple)
    assert aconn.closed


class Watcher:
    """Writes down when it hears what."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def rows(self, rows: Any) -> None:
        self.heard.append(list(rows))

    def committed(self) -> None:
        self.heard.append("committed")


INSERT = Prepared("insert", "INSERT INTO late VALUES (%(n)s::integer) RETURNING n")


def at_commit(conn: psycopg.Connection[Any], what: str) -> None:
    conn.execute(
        "CREATE TABLE late (n integer);"
        f" CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what};"
        " RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()".encode()
    )


async def test_rows_can_be_had_before_their_commit(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    at_commit(conn, "PERFORM pg_advisory_xact_lock(1)")
    conn.execute("SELECT pg_advisory_lock(1)")
    watcher = Watcher()
    fetching = asyncio.create_task(INSERT.fetch(aconn, {"n": 1}, tuple, watcher))
    await eventually(lambda: watcher.heard == [[(1,)]])
    assert conn.execute("SELECT count(*) FROM late").fetchone() == (0,)
    conn.execute("SELECT pg_advisory_unlock(1)")
    assert await fetching == [(1,)]
    assert watcher.heard == [[(1,)], "committed"]
    assert await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple) == [(1, "1")]


async def test_a_commit_that_fails_is_not_told_as_one(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    at_commit(conn, "RAISE EXCEPTION 'no' USING ERRCODE = '40001'")
    for _ in range(2):
        watcher = Watcher()
        with pytest.raises(psycopg.errors.SerializationFailure):
            await INSERT.fetch(aconn, {"n": 1}, tuple, watcher)
        assert watcher.heard == [[(1,)]]
    with pytest.raises(psycopg.errors.DivisionByZero):
        await DIVIDE.fetch(aconn, {"a": 1, "b": 0}, tuple, Watcher())
    assert await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple, Watcher()) == [(1, "1")]


async def test_a_wait_for_a_commit_can_be_cancelled(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    at_commit(conn, "PERFORM pg_advisory_xact_lock(1)")
    conn.execute("SELECT pg_advisory_lock(1)")
    watcher = Watcher()
    fetching = asyncio.create_task(INSERT.fetch(aconn, {"n": 1}, tuple, watcher))
    await eventually(lambda: watcher.heard == [[(1,)]])
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert watcher.heard == [[(1,)]]
    assert await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple) == [(1, "1")]


async def test_more_than_a_socket_takes_at_once(aconn: AsyncConn) -> None:
    length = Prepared("length", "SELECT length(%(text)s::text)")
    text = "x" * 30_000_000
    assert await length.fetch(aconn, {"text": text}, tuple) == [(30_000_000,)]
    assert await length.fetch(aconn, {"text": text}, tuple, Watcher()) == [(30_000_000,)]


async def test_two_who_ask_the_same_share_what_a_connection_knows(aconn: AsyncConn) -> None:
    for _ in range(2):
        number = Prepared("number", "SELECT %(n)s::bigint")
        assert await number.fetch(aconn, {"n": 7}, tuple) == [(7,)]


async def test_another_text_under_the_same_name_is_another_statement(aconn: AsyncConn) -> None:
    for n in (1, 2):
        assert await Prepared("number", f"SELECT {n}").fetch(aconn, {}, tuple) == [(n,)]
