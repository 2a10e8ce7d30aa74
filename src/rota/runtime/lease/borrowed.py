"""Statements of a thread over the pool of an event loop, where the server has no connection left
for the thread to have one of its own."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as LateAnswer
from typing import Any

import psycopg

from rota.store.sessions.pool import Database


class Row:
    """What a cursor answers, as far as it was read."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def fetchone(self) -> Any:
        return self._row


class Borrowed:
    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._loop = loop

    def run(self, sql: str, params: dict[str, Any], seconds: float) -> Row:
        """From the thread; the loop may stand still, so it does not wait for ever."""
        asking = asyncio.run_coroutine_threadsafe(self._ask(sql, params), self._loop)
        try:
            return Row(asking.result(seconds))
        except (LateAnswer, CancelledError) as error:
            asking.cancel()
            raise psycopg.OperationalError("no connection was free for the lease") from error

    async def _ask(self, sql: str, params: dict[str, Any]) -> Any:
        async with self._database.connection() as conn:
            cursor = await conn.execute(sql, params)
            return await cursor.fetchone() if cursor.description else None
