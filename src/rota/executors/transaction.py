"""`ctx.transaction()`: what a handler writes commits with its completion, or not at all.

Leaving a block releases a savepoint; the commit is sent when the handler returns. The fence is
the last statement and not the first: a row lock from the start would block cancel and rescue
for as long as the handler runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection

from rota.errors import JobError, LeaseLost
from rota.model.run import Claim
from rota.store.statements import Statements

# A deferred constraint would otherwise fail in COMMIT, after a finish that looked successful.
_CHECK_NOW = "SET CONSTRAINTS ALL IMMEDIATE"


class AttemptTransaction:
    """One connection of its own, for one attempt; async or sync, as the handler is."""

    def __init__(
        self, url: str, schema: str, claim: Claim, worker: int, lease_seconds: float
    ) -> None:
        self._url = url
        self._claim = claim
        self._worker = worker
        self._finish_sql = Statements(schema).get("runs/finish")
        # Seen by rescue, which ends the backend of a lost worker by this name; ended by the
        # server itself when the process was stopped in the middle.
        self._options: dict[str, Any] = {
            "application_name": f"rota run {claim.id} worker {worker}",
            "options": f"-c idle_in_transaction_session_timeout={int(lease_seconds * 1000)}",
            "tcp_user_timeout": 10_000,
        }
        self._conn: AsyncConnection[Any] | None = None
        self._sync_conn: Connection[Any] | None = None

    @asynccontextmanager
    async def block(self) -> AsyncIterator[AsyncConnection[Any]]:
        if self._sync_conn is not None:
            raise JobError("this attempt already uses transaction_sync(); use one of the two")
        if self._conn is None:
            self._conn = await AsyncConnection.connect(self._url, **self._options)
            await self._conn.execute("SELECT")
        async with self._conn.transaction():
            yield self._conn

    @contextmanager
    def block_sync(self) -> Iterator[Connection[Any]]:
        if self._conn is not None:
            raise JobError("this attempt already uses transaction(); use one of the two")
        if self._sync_conn is None:
            self._sync_conn = psycopg.connect(self._url, **self._options)
            self._sync_conn.execute("SELECT")
        with self._sync_conn.transaction():
            yield self._sync_conn

    def _params(self, duration_ms: float, result: str | None) -> dict[str, Any]:
        return {
            "worker": self._worker,
            "ids": [self._claim.id],
            "attempts": [self._claim.attempt],
            "durations": [duration_ms],
            "results": [result],
        }

    def _check(self, row: Any) -> None:
        if row is None:
            raise LeaseLost(f"run {self._claim.id} belongs to another worker by now")

    async def complete(self, duration_ms: float, result: str | None) -> None:
        """Effect and completion together. LeaseLost: the run is somebody else's, nothing stays."""
        if self._sync_conn is not None:
            self.complete_sync(duration_ms, result)
            return
        assert self._conn is not None
        await self._conn.execute(_CHECK_NOW)
        cursor = await self._conn.execute(self._finish_sql, self._params(duration_ms, result))
        self._check(await cursor.fetchone())
        await self._conn.commit()
        await self.close()

    def complete_sync(self, duration_ms: float, result: str | None) -> None:
        assert self._sync_conn is not None
        self._sync_conn.execute(_CHECK_NOW)
        cursor = self._sync_conn.execute(self._finish_sql, self._params(duration_ms, result))
        self._check(cursor.fetchone())
        self._sync_conn.commit()
        self.close_sync()

    async def close(self) -> None:
        """Without `complete` before it, everything is rolled back."""
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()
        self.close_sync()

    def close_sync(self) -> None:
        conn, self._sync_conn = self._sync_conn, None
        if conn is not None:
            conn.close()
