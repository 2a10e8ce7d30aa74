"""Stores batches of log lines by COPY, each line once."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import datetime, timedelta

import psycopg

from rota.engine.logs.log_lines import COPY_BEGIN, COPY_END, BufferedLine, Row, to_copy, to_fields
from rota.postgres import clock
from rota.postgres.logs import writing
from rota.postgres.sessions.pool import AsyncConn, Database
from rota.telemetry.logger import EventLogger

# After this many lines the event loop gets a turn, because runs wait for it.
_SLICE = 500
# SQLSTATE classes of values that the server rejects.
_REFUSED = ("22", "54")
_CLOCK_MOVED = timedelta(minutes=10)

Key = tuple[int, int, int]


class Unanswered(Exception):
    """A batch was sent without a response, and the server may still be storing it."""


class LogWriter:
    def __init__(self, database: Database, log: EventLogger) -> None:
        self._database = database
        self._log = log
        # Lines that may have been stored, although the server did not confirm it.
        self._doubtful: set[Key] = set()
        # Begins the statement, and identifies the server process that executes it. A process id
        # does not: a pooler reports its own.
        self._mark = f"/* rota log writer {secrets.token_hex(8)} */"
        self._copy_sql = writing.copy_text(database.statements, self._mark)

    async def write(self, batch: list[Row]) -> None:
        async with self._database.connection(is_hurried=False) as conn:
            before = time.monotonic_ns()
            now = await self._database.fetch_on(conn, clock.now())
            read = now, (before + time.monotonic_ns()) // 2
            rows = await self._without_stored(conn, batch, read) if self._doubtful else batch
            if not rows:
                return
            try:
                await self._copy(conn, rows, read)
            except BaseException:
                self._doubtful.update(map(_key, rows))
                raise
            if self._doubtful:
                self._doubtful.difference_update(map(_key, rows))

    async def _without_stored(
        self, conn: AsyncConn, batch: list[Row], read: tuple[datetime, int]
    ) -> list[Row]:
        """Leave out the lines that are stored already, after a connection broke before the
        response."""
        if await self._database.fetch_on(conn, writing.is_writing(self._mark)):
            raise Unanswered("the server may still be storing lines sent over a broken connection")
        keys = [key for key in map(_key, batch) if key in self._doubtful]
        if not keys:
            return batch
        query = writing.stored(keys, _oldest(batch, read) - _CLOCK_MOVED)
        stored: set[Key] = set(await self._database.fetch_on(conn, query))
        self._doubtful -= stored
        return [row for row in batch if _key(row) not in stored]

    async def _copy(self, conn: AsyncConn, batch: list[Row], read: tuple[datetime, int]) -> None:
        """Store the batch. A line that the server rejects must not prevent the others."""
        try:
            await self._send(conn, batch, read)
        except psycopg.errors.CheckViolation:
            room = writing.make_room(_oldest(batch, read), read[0] + timedelta(days=1))
            await self._database.fetch_on(conn, room)
            await self._send(conn, batch, read)
        except psycopg.Error as error:
            if (error.sqlstate or "")[:2] not in _REFUSED:
                raise
            if len(batch) == 1:
                self._log.warning("a log line was rejected", run=batch[0][1], error=error)
                await self._send(conn, [_plain(BufferedLine._make(batch[0]))], read)
                return
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                await self._copy(conn, part, read)

    async def _send(self, conn: AsyncConn, batch: list[Row], read: tuple[datetime, int]) -> None:
        async with conn.cursor() as cursor, cursor.copy(self._copy_sql) as copy:
            begin = COPY_BEGIN
            for first in range(0, len(batch), _SLICE):
                await copy.write(begin + to_copy(batch[first : first + _SLICE], *read))
                begin = b""
                await asyncio.sleep(0)
            await copy.write(COPY_END)


def _key(row: Row) -> Key:
    return row[1], row[3], row[4]


def _oldest(batch: list[Row], read: tuple[datetime, int]) -> datetime:
    now, monotonic = read
    return now - timedelta(microseconds=(monotonic - min(row[0] for row in batch)) // 1000)


def _plain(line: BufferedLine) -> BufferedLine:
    fields = to_fields({"refused": ascii(line.fields)}, 1000)
    return line._replace(message=ascii(line.message)[1:-1][:1000], fields=fields)
