"""Log lines on their way to the database: never in the handler's way, bounded, in batches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Protocol

import psycopg

from rota.model.run import Claim
from rota.runtime.log_drops import Drops
from rota.runtime.log_lines import Line, to_copy, to_fields, to_message
from rota.runtime.loop import Loop
from rota.store.pool import AsyncConn, Database

_BATCH = 5000
_EARLY = 100
_LAST_SECONDS = 5.0
# What is wrong with a value, or what the server cannot take apart.
_REFUSED = ("22", "54")


class Writer(Protocol):
    """The attempt that a line belongs to."""

    @property
    def claim(self) -> Claim: ...
    @property
    def worker(self) -> int: ...
    @property
    def tenant(self) -> str: ...

    log_seq: int


class LogBuffer(Loop):
    """Handlers add lines from any thread; they are stored every few seconds, every hundred lines,
    or when an attempt ends. Full: lines are dropped, and each attempt gets a line that says so."""

    name = "logs"

    def __init__(
        self, database: Database, *, buffer_lines: int, buffer_bytes: int, flush_seconds: float,
        line_bytes: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self._database = database
        self._most_lines = buffer_lines
        self._most_bytes = buffer_bytes
        self._flush_seconds = flush_seconds
        self._line_bytes = line_bytes
        self._lines: deque[Line] = deque()
        self._bytes = 0
        self._drops = Drops()
        self._lock = threading.Lock()
        self._writing = asyncio.Lock()
        self._is_pressed = False
        self.dropped_total = 0
        self.stored_total = 0

    def add(self, writer: Writer, level: str, message: object, fields: Mapping[str, Any]) -> None:
        limit = self._line_bytes
        text = message if type(message) is str and len(message) < 200 else None
        if text is None or not text.isascii() or "\x00" in text:
            text = to_message(message, limit)
        shown = to_fields(fields, limit) if fields else None
        claim, written = writer.claim, time.monotonic()
        size = 200 + len(text) + (0 if shown is None else len(shown))
        with self._lock:
            writer.log_seq = seq = writer.log_seq + 1
            line = Line(
                written, claim.id, writer.worker, claim.attempt, seq, level, claim.job,
                writer.tenant, text, shown,
            )  # fmt: skip
            if len(self._lines) >= self._most_lines or self._bytes + size > self._most_bytes:
                self.dropped_total += 1
                self._drops.count(line)
                return
            self._lines.append(line)
            self._bytes += size

    def attempt_ended(self) -> None:
        """Somebody may look at its lines now: do not let them wait."""
        self._is_pressed = True

    @property
    def is_early(self) -> bool:
        """The flush should not wait."""
        return self._is_pressed or len(self._lines) >= _EARLY

    async def run_once(self) -> float:
        self._is_pressed = False
        async with self._writing:
            while self._lines:
                batch = list(islice(self._lines, _BATCH))
                await self._write(batch)
                self._forget(batch)
            await self._report_drops()
        return self._flush_seconds

    async def stop(self) -> None:
        """Lets a write that is under way come to its end, so that no line is stored twice; what
        is left is then written, for as long as a database that is away may reasonably take."""
        deadline = time.monotonic() + _LAST_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS), self._writing:
                await super().stop()
        await super().stop()
        while (self._lines or self._drops) and time.monotonic() < deadline:
            try:
                await self.run_once()
            except Exception:
                await asyncio.sleep(0.2)

    def _forget(self, batch: list[Line]) -> None:
        self.stored_total += len(batch)
        with self._lock:
            for line in batch:
                self._lines.popleft()
                self._bytes -= line.size

    async def _report_drops(self) -> None:
        with self._lock:
            lines, untold = self._drops.take()
        if not lines:
            return
        total = self._drops.total(lines) + untold
        self._log.warning("log lines were dropped", lines=total, attempts=len(lines))
        try:
            await self._write(lines)
        except BaseException:
            with self._lock:
                self._drops.put_back(lines, untold)
            raise

    async def _write(self, batch: list[Line]) -> None:
        async with self._database.connection() as conn:
            before = time.monotonic()
            now = await self._now(conn)
            await self._copy(conn, batch, now, (before + time.monotonic()) / 2)

    async def _now(self, conn: AsyncConn) -> datetime:
        cursor = await conn.execute(self._database.statements.get("clock/now"))
        row = await cursor.fetchone()
        assert row is not None
        now: datetime = row[0]
        return now

    async def _copy(
        self, conn: AsyncConn, batch: list[Line], now: datetime, monotonic: float
    ) -> None:
        """All of it. One line that the server refuses must not keep the others out."""
        try:
            await self._send(conn, to_copy(batch, now, monotonic))
        except psycopg.errors.CheckViolation:
            oldest = now - timedelta(seconds=monotonic - min(line.written for line in batch))
            params = {"since": oldest, "until": now + timedelta(days=1)}
            await conn.execute(self._database.statements.get("logs/make_room"), params)
            await self._send(conn, to_copy(batch, now, monotonic))
        except psycopg.Error as error:
            if (error.sqlstate or "")[:2] not in _REFUSED:
                raise
            if len(batch) == 1:
                self._log.warning("a log line was refused", run=batch[0].run_id, error=error)
                await self._send(conn, to_copy([_plain(batch[0])], now, monotonic))
                return
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                await self._copy(conn, part, now, monotonic)

    async def _send(self, conn: AsyncConn, rows: bytes) -> None:
        async with (
            conn.cursor() as cursor,
            cursor.copy(self._database.statements.get("logs/write")) as copy,
        ):
            await copy.write(rows)


def _plain(line: Line) -> Line:
    fields = to_fields({"refused": ascii(line.fields)}, 1000)
    return line._replace(message=ascii(line.message)[1:-1][:1000], fields=fields)
