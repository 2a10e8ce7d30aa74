"""Statements on the hot paths, sent with numbered parameters: by name, the driver walks over every
statement's text and parameters each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncRawCursor, RawCursor

from rota.store.pool import AsyncConn, Conn
from rota.store.statements import convert


async def execute(
    conn: AsyncConn, sql: str, parameters: Mapping[str, Any], *, binary: bool = False
) -> AsyncRawCursor[Any]:
    text, names = convert(sql, "numeric")
    cursor = AsyncRawCursor(conn)
    await cursor.execute(text, [parameters[name] for name in names], binary=binary)
    return cursor


def execute_sync(conn: Conn, sql: str, parameters: Mapping[str, Any]) -> RawCursor[Any]:
    text, names = convert(sql, "numeric")
    cursor = RawCursor(conn)
    cursor.execute(text, [parameters[name] for name in names])
    return cursor
