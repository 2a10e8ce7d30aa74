"""Gives log lines the index of their words once nothing more is written there.

Outside of transactions, because building must not lock out the lines that come in; one at a time,
because the table's lock sees to it. It may wait for long transactions of others, so no other duty
waits behind it.
"""

from __future__ import annotations

import psycopg

from rota.runtime.loop import Loop
from rota.store.sessions.connection import AsyncLink, NoAnswer
from rota.store.sessions.pool import Database
from rota.store.upkeep import LogIndex, next_log_index

_PERIOD = 60.0
# An open partition is cut when so much of it has no index: about a third of a million lines.
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
        """One index at most; again at once if there was one to build."""
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

    async def _build(self, conn: AsyncLink, index: LogIndex) -> bool:
        if index.leftover is not None and not await self._drop(conn, index.leftover):
            return False
        self._log.info("indexing log lines", statement=index.statement)
        try:
            await conn.execute(index.statement.encode())
            await conn.execute(index.analysis.encode())
        except _OTHERS:
            return False  # another worker was faster, or both gave way to each other
        return True

    async def _drop(self, conn: AsyncLink, statement: str) -> bool:
        """What a crash has left half built. Somebody may just be building it: then the table is
        locked, and it is left alone; and only one that was found twice is a leftover."""
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
