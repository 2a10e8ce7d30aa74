"""Enqueues on a caller's connection, to join its transaction.

Nothing here imports a driver or an ORM: the caller that passes a connection has imported it.
Nothing here commits, either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rota.errors import InputError
from rota.postgres.errors import translate_foreign
from rota.postgres.sessions.drivers import (
    Rows,
    family,
    fetch_asyncpg,
    fetch_django,
    fetch_psycopg,
    fetch_psycopg_sync,
    fetch_sqlalchemy,
    fetch_sqlalchemy_sync,
)


@dataclass(frozen=True, slots=True)
class Driver:
    """The functions for one family of connections. Exactly one of the two is given."""

    name: str
    fetch: Callable[[Any, str, Mapping[str, Any]], Awaitable[Rows]] | None = None
    fetch_sync: Callable[[Any, str, Mapping[str, Any]], Rows] | None = None


async def fetch(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    """Return the rows of a statement, on a caller's async connection."""
    driver = find_driver(connection)
    if driver.fetch is None:
        raise InputError(
            f"{driver.name} is sync: use enqueue_sync, or enqueue_many_sync, with it",
            hint="await enqueue() takes an async connection",
        )
    with translate_foreign():
        return await driver.fetch(connection, sql, parameters)


def fetch_sync(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    """Return the rows of a statement, on a caller's sync connection."""
    driver = find_driver(connection)
    if driver.fetch_sync is None:
        raise InputError(
            f"{driver.name} is async: use await enqueue(), or await enqueue_many(), with it",
            hint="enqueue_sync() takes a sync connection",
        )
    with translate_foreign():
        return driver.fetch_sync(connection, sql, parameters)


def find_driver(connection: Any) -> Driver:
    """Find the driver by the names of the connection's class and its bases."""
    for name in family(connection):
        driver = _DRIVERS.get(name)
        if driver is not None:
            return driver
    kind = type(connection)
    raise InputError(
        f"connection= does not take a {kind.__module__}.{kind.__qualname__}",
        hint="it takes a connection or session of psycopg, asyncpg, SQLAlchemy or Django; "
        "not a pool or an engine, which have no transaction",
    )


def _django(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    if connection.vendor != "postgresql":
        raise InputError(f"Django's connection is to {connection.vendor}, not to PostgreSQL")
    return fetch_django(connection, sql, parameters)


_DRIVERS: dict[tuple[str, str], Driver] = {
    ("psycopg", "AsyncConnection"): Driver("psycopg's AsyncConnection", fetch=fetch_psycopg),
    ("psycopg", "AsyncCursor"): Driver("psycopg's AsyncCursor", fetch=fetch_psycopg),
    ("psycopg", "Connection"): Driver("psycopg's Connection", fetch_sync=fetch_psycopg_sync),
    ("psycopg", "Cursor"): Driver("psycopg's Cursor", fetch_sync=fetch_psycopg_sync),
    ("asyncpg", "Connection"): Driver("asyncpg's Connection", fetch=fetch_asyncpg),
    ("asyncpg", "PoolConnectionProxy"): Driver("asyncpg's Connection", fetch=fetch_asyncpg),
    ("sqlalchemy", "AsyncConnection"): Driver(
        "SQLAlchemy's AsyncConnection", fetch=fetch_sqlalchemy
    ),
    ("sqlalchemy", "AsyncSession"): Driver("SQLAlchemy's AsyncSession", fetch=fetch_sqlalchemy),
    ("sqlalchemy", "async_scoped_session"): Driver(
        "SQLAlchemy's AsyncSession", fetch=fetch_sqlalchemy
    ),
    ("sqlalchemy", "Connection"): Driver(
        "SQLAlchemy's Connection", fetch_sync=fetch_sqlalchemy_sync
    ),
    ("sqlalchemy", "Session"): Driver("SQLAlchemy's Session", fetch_sync=fetch_sqlalchemy_sync),
    ("sqlalchemy", "scoped_session"): Driver(
        "SQLAlchemy's Session", fetch_sync=fetch_sqlalchemy_sync
    ),
    ("django", "ConnectionProxy"): Driver("Django's connection", fetch_sync=_django),
    ("django", "BaseDatabaseWrapper"): Driver("Django's connection", fetch_sync=_django),
}
