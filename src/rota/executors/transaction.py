"""`ctx.transaction()`: what a handler writes commits with its completion, or not at all.

Leaving a block releases a savepoint; the commit is sent when the handler returns. The fence is
the last statement and not the first: a row lock from the start would block cancel and rescue
for as long as the handler runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg import AsyncClientCursor, AsyncConnection, ClientCursor, Connection
from psycopg.errors import CheckViolation, LockNotAvailable

from rota.errors import JobError, LeaseLost
from rota.executors.lending import Lending
from rota.model.run import Claim
from rota.store.errors import is_missing_partition
from rota.store.sessions import lent
from rota.store.statements import Statements

_LOCKED_PAUSE = 0.05


class AttemptTransaction:
    """One connection of its own, for one attempt; async or sync, as the handler is.

    Each block is a savepoint in one transaction that is held open round all of them: a handler
    that calls `commit()` itself gets the driver's error instead of a commit without the fence.
    """

    def __init__(
        self, url: str, schema: str, claim: Claim, worker: int, lease_seconds: float
    ) -> None:
        self._url = url
        self._claim = claim
        self._worker = worker
        self._lease_seconds = lease_seconds
        statements = Statements(schema)
        self._lending = Lending(statements, claim, worker, lease_seconds)
        self._finish_sql = statements.get("runs/finish")
        self._partitions_sql = statements.get("upkeep/partitions")
        self._conn: AsyncConnection[Any] | None = None
        self._sync_conn: Connection[Any] | None = None
        self._open = AsyncExitStack()
        self._open_sync = ExitStack()

    @asynccontextmanager
    async def block(self) -> AsyncIterator[AsyncConnection[Any]]:
        if self._sync_conn is not None:
            raise JobError("this attempt already uses transaction_sync(); use one of the two")
        if self._conn is None:
            conn = await AsyncConnection.connect(self._url, **lent(self._lending.name))
            self._conn = conn
            await self._open.enter_async_context(conn.transaction())
            await conn.execute(*self._lending.begin())
        async with self._conn.transaction():
            yield self._conn

    @contextmanager
    def block_sync(self) -> Iterator[Connection[Any]]:
        if self._conn is not None:
            raise JobError("this attempt already uses transaction(); use one of the two")
        if self._sync_conn is None:
            conn = psycopg.connect(self._url, **lent(self._lending.name))
            self._sync_conn = conn
            self._open_sync.enter_context(conn.transaction())
            conn.execute(*self._lending.begin())
        with self._sync_conn.transaction():
            yield self._sync_conn

    async def complete(self, duration_ms: float, result: str | None) -> None:
        """Effect and completion together. LeaseLost: the run is somebody else's, nothing stays."""
        assert self._conn is not None
        await AsyncClientCursor(self._conn).execute(*self._lending.end())
        deadline = time.monotonic() + self._lease_seconds
        while True:
            try:
                async with self._conn.transaction():
                    params = self._params(duration_ms, result)
                    cursor = await self._conn.execute(self._finish_sql, params)
                    self._check(await cursor.fetchone())
                break
            except LockNotAvailable:
                # Somebody holds the run's row; the work is done, so that is worth a wait.
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_LOCKED_PAUSE)
            except CheckViolation as error:
                if not is_missing_partition(error) or time.monotonic() > deadline:
                    raise
                await self._conn.execute(self._partitions_sql)
        await self._open.aclose()
        await self.close()

    def complete_sync(self, duration_ms: float, result: str | None) -> None:
        assert self._sync_conn is not None
        ClientCursor(self._sync_conn).execute(*self._lending.end())
        deadline = time.monotonic() + self._lease_seconds
        while True:
            try:
                with self._sync_conn.transaction():
                    params = self._params(duration_ms, result)
                    self._check(self._sync_conn.execute(self._finish_sql, params).fetchone())
                break
            except LockNotAvailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOCKED_PAUSE)
            except CheckViolation as error:
                if not is_missing_partition(error) or time.monotonic() > deadline:
                    raise
                self._sync_conn.execute(self._partitions_sql)
        self._open_sync.close()
        self.close_sync()

    def _params(self, duration_ms: float, result: str | None) -> dict[str, Any]:
        return {
            "worker": self._worker,
            "ids": [self._claim.id],
            "attempts": [self._claim.attempt],
            "durations": [duration_ms],
            "results": [result],
        }

    def _check(self, row: Any) -> None:
        if row is None or row[0] != 1:
            raise LeaseLost(f"run {self._claim.id} belongs to another worker by now")

    async def close(self) -> None:
        """Without `complete` before it, everything is rolled back: by the server, as the
        connection simply ends."""
        self._open.pop_all()
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()
        self.close_sync()

    def close_sync(self) -> None:
        self._open_sync.pop_all()
        conn, self._sync_conn = self._sync_conn, None
        if conn is not None:
            conn.close()
