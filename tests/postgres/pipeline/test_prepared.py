"""Statements past the driver's cursor behave as those through it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from rota.postgres.pipeline.prepared import Prepared, fetch_all
from rota.testing import eventually, eventually_sync

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


TAKE = Prepared("take", "INSERT INTO kept SELECT unnest(%(n)s::integer[]) RETURNING n")


async def test_several_are_one_round_trip_and_one_transaction(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("CREATE TABLE kept (n integer UNIQUE)")
    divide = DIVIDE.question({"a": 9, "b": 3}, list)
    assert await fetch_all(aconn, [TAKE.question({"n": [1, 2]}, tuple), divide]) == [
        [(1,), (2,)],
        [[3, "9"]],
    ]
    for wrong in ({"n": [3, 1]}, {"n": "not a list"}):
        with pytest.raises((psycopg.errors.UniqueViolation, psycopg.DataError)):
            await fetch_all(
                aconn, [TAKE.question({"n": [4]}, tuple), TAKE.question(wrong, tuple), divide]
            )
    assert conn.execute("SELECT n FROM kept ORDER BY n").fetchall() == [(1,), (2,)]
    assert await fetch_all(aconn, []) == []
    assert await DIVIDE.fetch(aconn, {"a": 1, "b": 1}, tuple) == [(1, "1")]


async def test_inside_a_transaction_they_are_part_of_it(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("CREATE TABLE kept (n integer UNIQUE)")
    async with aconn.transaction(force_rollback=True):
        assert await fetch_all(aconn, [TAKE.question({"n": [1]}, tuple)]) == [[(1,)]]
    assert conn.execute("SELECT count(*) FROM kept").fetchone() == (0,)


async def test_lists_arrive_as_they_are(aconn: AsyncConn) -> None:
    kinds: dict[str, list[Any]] = {
        "text": ["", None, 'a"b', "c\\d", "{e,f}", "NULL", "日本", " g "],
        "bigint": [1, None, 2**62],
        "double precision": [0.5, None, 1e300],
        "boolean": [True, None, False],
    }
    for kind, values in kinds.items():
        echo = Prepared("echo", f"SELECT %(values)s::{kind}[]")
        assert await echo.fetch(aconn, {"values": values}, tuple) == [(values,)]
        assert await echo.fetch(aconn, {"values": []}, tuple) == [([],)]
        assert await echo.fetch(aconn, {"values": [None]}, tuple) == [([None],)]


async def test_it_has_left_before_anybody_else_gets_the_loop(
    aconn: AsyncConn, conn: psycopg.Connection[Any]
) -> None:
    """However long a callback keeps the event loop, the server has its work."""
    conn.execute("SELECT pg_advisory_lock(1)")
    lock = Prepared("lock", "SELECT pg_advisory_lock(%(n)s::bigint)::text")
    await lock.fetch(aconn, {"n": 2}, tuple)
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"
    pid = aconn.info.backend_pid
    seen = []

    def keep_the_loop() -> None:
        eventually_sync(lambda: conn.execute(query, [pid]).fetchone() == (1,))
        seen.append(True)
        conn.execute("SELECT pg_advisory_unlock(1)")

    asyncio.get_running_loop().call_soon(keep_the_loop)
    await fetch_all(aconn, [lock.question({"n": 1}, tuple)])
    assert seen == [True]


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (0, 2), (3, 2)])
async def test_a_server_lost_in_the_middle_is_an_operational_error(
    aconn: AsyncConn, conn: psycopg.Connection[Any], before: int, after: int
) -> None:
    conn.execute("SELECT pg_advisory_lock(1)")
    lock = Prepared("lock", "SELECT pg_advisory_lock(%(n)s::bigint)::text")
    divide = DIVIDE.question({"a": 1, "b": 1}, tuple)
    asked = [*[divide] * before, lock.question({"n": 1}, tuple), *[divide] * after]
    waiting = asyncio.create_task(fetch_all(aconn, asked))
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"
    pid = aconn.info.backend_pid
    await eventually(lambda: conn.execute(query, [pid]).fetchone() == (1,))
    conn.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    with pytest.raises(psycopg.OperationalError):
        await waiting
    assert aconn.closed


async def test_what_the_server_has_forgotten_is_prepared_again(aconn: AsyncConn) -> None:
    for forget in ("DISCARD ALL", "DEALLOCATE ALL"):
        for _ in range(2):
            assert await DIVIDE.fetch(aconn, {"a": 4, "b": 2}, tuple) == [(2, "4")]
            await aconn.execute(forget)
        asked = [DIVIDE.question({"a": n, "b": 1}, tuple) for n in (1, 2)]
        assert await fetch_all(aconn, asked) == [[(1, "1")], [(2, "2")]]


async def test_in_a_transaction_it_is_too_late_for_that_one_only(aconn: AsyncConn) -> None:
    await DIVIDE.fetch(aconn, {"a": 4, "b": 2}, tuple)
    async with aconn.transaction(force_rollback=True):
        await aconn.execute("DEALLOCATE ALL")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            await DIVIDE.fetch(aconn, {"a": 4, "b": 2}, tuple)
    async with aconn.transaction():
        assert await DIVIDE.fetch(aconn, {"a": 4, "b": 2}, tuple) == [(2, "4")]


async def test_somebody_has_prepared_the_same(aconn: AsyncConn) -> None:
    """Through a pooler two who ask the same may get one of its connections after the other."""
    text = DIVIDE._text.decode()
    await aconn.execute(f"PREPARE {DIVIDE.name.decode()} AS {text}".encode())
    assert await DIVIDE.fetch(aconn, {"a": 4, "b": 2}, tuple) == [(2, "4")]


def test_threads_have_the_same(conn: psycopg.Connection[Any]) -> None:
    for _ in range(2):
        assert DIVIDE.fetch_sync(conn, {"a": 7, "b": 2}, tuple) == [(3, "7")]
        with pytest.raises(psycopg.errors.DivisionByZero):
            DIVIDE.fetch_sync(conn, {"a": 7, "b": 0}, tuple)
        conn.execute("DISCARD ALL")
