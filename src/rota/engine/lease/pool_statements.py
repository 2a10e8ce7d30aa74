"""Statements of a thread over the pool of an event loop, for when the server has no connection left
for the thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as LateAnswer
from typing import TypeVar

import psycopg

from rota.postgres.queries import Query
from rota.postgres.sessions.pool import Database

T = TypeVar("T")


class PoolStatements:
    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._loop = loop

    def fetch(self, query: Query[T], seconds: float) -> T:
        """Called from the thread. The wait is limited, because the event loop may be blocked."""
        future = asyncio.run_coroutine_threadsafe(self._database.fetch(query), self._loop)
        try:
            return future.result(seconds)
        except (LateAnswer, CancelledError) as error:
            future.cancel()
            raise psycopg.OperationalError("no connection was free for the lease") from error
