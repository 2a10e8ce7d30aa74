"""Builds the word index of log lines once their part of the table is complete.

Built outside of transactions, because building must not lock out new lines; one index at a time,
which the table's lock ensures. Building may wait for long transactions, so no other duty waits
behind it.
"""

from __future__ import annotations

import psycopg

from rota.engine.loop import Loop
from rota.postgres.sessions.connection import AsyncBoundedConnection, NoAnswer
from rota.postgres.sessions.pool import Database
from rota.postgres.upkeep import LogIndex, next_log_index

_PERIOD = 60.0
# An open partition is cut when this much of it has no index: about a third of a million lines.
_LEAST_BYTES = 64 * 1024 * 1024
_OTHERS = (
    psycopg.errors.DuplicateTable,
    psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected,
)
_PATIENCE_SECONDS = 1.0


class LogIndexes(Loop):
    name = "log indexes"
    is_patient = True
    long_seconds = 6 * 3600.0  # an index is built in one statement

    def __init__(self, database: Database, *, least_bytes: int = _LEAST_BYTES) -> None:
        super().__init__()
        self._database = database
        self._least_bytes = least_bytes
        self._leftover: str | None = None

    async def run_once(self) -> float:
        """Build at most one index; run again at once if there was one to build."""
        query = next_log_index(self._least_bytes)
        found = await self._database.fetch(query, is_hurried=False)
        if found is None:
            self._leftover = None
            return _PERIOD
        conn = await self._database.connect("rota log indexes")
        try:
            return 0.0 if await self._build(conn, found) else _PERIOD
        finally:
            await conn.close()

    async def _build(self, conn: AsyncBoundedConnection, index: LogIndex) -> bool:
        if index.leftover is not None and not await self._drop(conn, index.leftover):
            return False
        self._log.info("indexing log lines", statement=index.statement)
        try:
            await conn.execute(index.statement.encode())
            await conn.execute(index.analysis.encode())
        except _OTHERS:
            return False  # another worker was faster, or both were rolled back by a deadlock
        return True

    async def _drop(self, conn: AsyncBoundedConnection, statement: str) -> bool:
        """Drop an index that a crash has left incomplete. If another worker is building it, the
        table is locked, and the index is left alone; only an index found twice is a leftover."""
        if self._leftover != statement:
            self._leftover = statement
            return False
        before, conn.answer_seconds = conn.answer_seconds, _PATIENCE_SECONDS
        try:
            await conn.execute(statement.encode())
        except NoAnswer:
            return False
        finally:
            conn.answer_seconds = before
        self._log.warning("dropped an incomplete index of log lines")
        return True
