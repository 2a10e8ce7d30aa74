"""Executes statements on users' connections, for each supported driver and ORM.

Nothing here imports a driver or an ORM: the caller that passes a connection has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from rota.postgres.statements import convert

Rows = list[Any]


def family(source: Any) -> list[tuple[str, str]]:
    """Return the top-level module and the name of the object's class and of all its bases."""
    return [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__]


async def fetch_psycopg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    # Use a new cursor: the caller's may hold unread rows.
    owner = getattr(connection, "connection", connection)
    async with owner.cursor(row_factory=tuple_row) as cursor:
        try:
            await cursor.execute(sql, parameters)
        except InvalidSqlStatementName:
            if not _can_repeat(owner):
                raise
            await cursor.execute(sql, parameters, prepare=False)
        return await cursor.fetchall() if cursor.description else []


def fetch_psycopg_sync(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    owner = getattr(connection, "connection", connection)
    with owner.cursor(row_factory=tuple_row) as cursor:
        try:
            cursor.execute(sql, parameters)
        except InvalidSqlStatementName:
            if not _can_repeat(owner):
                raise
            cursor.execute(sql, parameters, prepare=False)
        return cursor.fetchall() if cursor.description else []


def _can_repeat(connection: Any) -> bool:
    """Return whether a statement can be repeated after the driver's prepared statements were lost
    (DISCARD ALL, a pooler). Inside a transaction, which the error has aborted, only the caller can
    begin again."""
    return bool(connection.info.transaction_status == TransactionStatus.IDLE)


async def fetch_asyncpg(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    text, names = convert(sql, "numeric")
    rows = await connection.fetch(text, *(parameters[name] for name in names))
    return [tuple(row) for row in rows]


async def fetch_sqlalchemy(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    text, _ = convert(sql, "named")
    result = await connection.execute(sys.modules["sqlalchemy"].text(text), parameters)
    return [tuple(row) for row in result.all()] if result.returns_rows else []


def fetch_sqlalchemy_sync(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    text, _ = convert(sql, "named")
    result = connection.execute(sys.modules["sqlalchemy"].text(text), parameters)
    return [tuple(row) for row in result.all()] if result.returns_rows else []


def fetch_django(connection: Any, sql: str, parameters: Mapping[str, Any]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
