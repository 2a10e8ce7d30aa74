"""Enqueue on a connection of the caller's, so that it joins the caller's transaction.

Nothing here imports a driver or an ORM: whoever passes a connection has imported it. Nothing here
commits, either.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from rota.errors import PayloadError
from rota.store.errors import translate_foreign
from rota.store.statements import convert

Rows = list[Any]


@dataclass(frozen=True, slots=True)
class Driver:
    """How one family of connections is spoken to. Exactly one of the two is given."""

    name: str
    fetch: Callable[[Any, str, Mapping[str, Any]], Awaitable[Rows]] | None = None
    fetch_sync: Callable[[Any, str, Mapping[str, Any]], Rows] | None = None


async def fetch(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    """The rows of a statement, on a caller's async connection."""
    driver = find_driver(connection)
    if driver.fetch is None:
        raise PayloadError(
            f"{driver.name} is sync: use enqueue_sync, or send_many_sync, with it",
            hint="await enqueue() takes an async connection",
        )
    with translate_foreign():
        return await driver.fetch(connection, sql, parameters)


def fetch_sync(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    """The rows of a statement, on a caller's sync connection."""
    driver = find_driver(connection)
    if driver.fetch_sync is None:
        raise PayloadError(
            f"{driver.name} is async: use await enqueue(), or await send_many(), with it",
            hint="enqueue_sync() takes a sync connection",
        )
    with translate_foreign():
        return driver.fetch_sync(connection, sql, parameters)


def find_driver(connection: Any) -> Driver:
    """By the names of the connection's class and its bases."""
    for kind in type(connection).__mro__:
        driver = _DRIVERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if driver is not None:
            return driver
    kind = type(connection)
    raise PayloadError(
        f"connection= does not take a {kind.__module__}.{kind.__qualname__}",
        hint="it takes a connection or session of psycopg, asyncpg, SQLAlchemy or Django; "
        "not a pool or an engine, which have no transaction",
    )


async def _psycopg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    # A cursor of our own: the caller's may hold rows that are still to be read.
    owner = getattr(connection, "connection", connection)
    async with owner.cursor(row_factory=tuple_row) as cursor:
        try:
            await cursor.execute(sql, parameters)
        except InvalidSqlStatementName:
            if not _can_repeat(owner):
                raise
            await cursor.execute(sql, parameters, prepare=False)
        return await cursor.fetchall()  # type: ignore[no-any-return]


def _psycopg_sync(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    owner = getattr(connection, "connection", connection)
    with owner.cursor(row_factory=tuple_row) as cursor:
        try:
            cursor.execute(sql, parameters)
        except InvalidSqlStatementName:
            if not _can_repeat(owner):
                raise
            cursor.execute(sql, parameters, prepare=False)
        return cursor.fetchall()  # type: ignore[no-any-return]


def _can_repeat(connection: Any) -> bool:
    """What the driver had prepared is gone (DISCARD ALL, a pooler). In a transaction, which has
    failed by that, only the caller can begin again."""
    return bool(connection.info.transaction_status == TransactionStatus.IDLE)


async def _asyncpg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    text, names = convert(sql, "numeric")
    rows = await connection.fetch(text, *(parameters[name] for name in names))
    return [tuple(row) for row in rows]


async def _sqlalchemy(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    text, _ = convert(sql, "named")
    result = await connection.execute(sys.modules["sqlalchemy"].text(text), parameters)
    return [tuple(row) for row in result.all()]


def _sqlalchemy_sync(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    text, _ = convert(sql, "named")
    result = connection.execute(sys.modules["sqlalchemy"].text(text), parameters)
    return [tuple(row) for row in result.all()]


def _django(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    if connection.vendor != "postgresql":
        raise PayloadError(f"Django's connection is to {connection.vendor}, not to PostgreSQL")
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [tuple(row) for row in cursor.fetchall()]


_DRIVERS: dict[tuple[str, str], Driver] = {
    ("psycopg", "AsyncConnection"): Driver("psycopg's AsyncConnection", fetch=_psycopg),
    ("psycopg", "AsyncCursor"): Driver("psycopg's AsyncCursor", fetch=_psycopg),
    ("psycopg", "Connection"): Driver("psycopg's Connection", fetch_sync=_psycopg_sync),
    ("psycopg", "Cursor"): Driver("psycopg's Cursor", fetch_sync=_psycopg_sync),
    ("asyncpg", "Connection"): Driver("asyncpg's Connection", fetch=_asyncpg),
    ("asyncpg", "PoolConnectionProxy"): Driver("asyncpg's Connection", fetch=_asyncpg),
    ("sqlalchemy", "AsyncConnection"): Driver("SQLAlchemy's AsyncConnection", fetch=_sqlalchemy),
    ("sqlalchemy", "AsyncSession"): Driver("SQLAlchemy's AsyncSession", fetch=_sqlalchemy),
    ("sqlalchemy", "async_scoped_session"): Driver("SQLAlchemy's AsyncSession", fetch=_sqlalchemy),
    ("sqlalchemy", "Connection"): Driver("SQLAlchemy's Connection", fetch_sync=_sqlalchemy_sync),
    ("sqlalchemy", "Session"): Driver("SQLAlchemy's Session", fetch_sync=_sqlalchemy_sync),
    ("sqlalchemy", "scoped_session"): Driver("SQLAlchemy's Session", fetch_sync=_sqlalchemy_sync),
    ("django", "ConnectionProxy"): Driver("Django's connection", fetch_sync=_django),
    ("django", "BaseDatabaseWrapper"): Driver("Django's connection", fetch_sync=_django),
}
