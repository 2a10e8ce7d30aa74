"""Buffers log lines: written in batches, bounded, without delaying the handler."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol

from rota.engine.logs.log_drops import DroppedLines
from rota.engine.logs.log_lines import BufferedLine, Row, to_fields, to_message
from rota.engine.logs.log_writer import LogWriter
from rota.engine.loop import Loop
from rota.model.run import Claim
from rota.postgres.sessions.pool import Database

_BATCH = 5000
_EARLY = 100
# This many lines do not wait for the worker's ticker.
_MANY = 3000
_LAST_SECONDS = 5.0
# The memory of a line with short message and fields. The excess of long lines is counted
# separately, so that most lines need no counting.
_LINE_BYTES = 750
_SHORT = 200


class Writer(Protocol):
    """The attempt that a line belongs to."""

    @property
    def claim(self) -> Claim: ...
    @property
    def worker(self) -> int: ...

    @property
    def log_seqs(self) -> Iterator[int]:
        """Taking the next number is atomic, so that the threads of one attempt need no lock."""


class LogBuffer(Loop):
    """Handlers add lines from any thread; they are stored every few seconds, every hundred lines,
    or when an attempt ends. If the buffer is full, lines are dropped, and each attempt gets a line
    that says so."""

    name = "logs"

    def __init__(
        self,
        database: Database,
        *,
        buffer_lines: int,
        buffer_bytes: int,
        flush_seconds: float,
        line_bytes: int,
    ) -> None:
        super().__init__()
        self._writer = LogWriter(database, self._log)
        self._most_lines = buffer_lines
        self._most_bytes = buffer_bytes
        self._flush_seconds = flush_seconds
        self._line_bytes = line_bytes
        self._rows: deque[Row] = deque()
        self._surplus = 0
        self._room = 0
        self._set_surplus(0)
        self._drops = DroppedLines()
        self._lock = threading.Lock()
        self._writing = asyncio.Lock()
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._is_pressed = False
        self.dropped_total = 0
        self.stored_total = 0

    def add(
        self, writer: Writer, level: str, message: object, fields: Mapping[str, Any], now: int
    ) -> None:
        """Called for every line: takes no lock unless the line is long or dropped. `now` is
        monotonic, in nanoseconds."""
        text, shown = message, None
        is_long = False
        if type(text) is not str or len(text) > _SHORT or not text.isascii() or "\x00" in text:
            text = to_message(text, self._line_bytes)
            is_long = len(text) > _SHORT
        if fields:
            shown = to_fields(fields, self._line_bytes)
            is_long = is_long or len(shown) > _SHORT
        claim, rows = writer.claim, self._rows
        row = (
            now,
            claim.id,
            writer.worker,
            claim.attempt,
            next(writer.log_seqs),
            level,
            claim.job,
            claim.tenant,
            text,
            shown,
        )
        waiting = len(rows)
        if waiting >= self._room or (is_long and not self._has_room(row)):
            self._drop(row)
            return
        rows.append(row)
        if waiting == _MANY:
            self._call()

    def _has_room(self, row: Row) -> bool:
        surplus = _surplus(row)
        with self._lock:
            if len(self._rows) * _LINE_BYTES + self._surplus + surplus > self._most_bytes:
                return False
            self._set_surplus(self._surplus + surplus)
            return True

    def _set_surplus(self, surplus: int) -> None:
        self._surplus = surplus
        self._room = min(self._most_lines, (self._most_bytes - surplus) // _LINE_BYTES)

    def _drop(self, row: Row) -> None:
        with self._lock:
            self.dropped_total += 1
            self._drops.count(BufferedLine._make(row))

    def _call(self) -> None:
        """Wake the loop from any thread."""
        if self._event_loop is not None:
            with suppress(RuntimeError):  # the event loop has ended, and so has the worker
                self._event_loop.call_soon_threadsafe(self.wake)

    def attempt_ended(self) -> None:
        """Flush soon: a person may read the lines of the attempt now."""
        self._is_pressed = True

    @property
    def is_early(self) -> bool:
        """Return whether to flush before the usual time."""
        return self._is_pressed or len(self._rows) >= _EARLY

    def start(self) -> None:
        self._event_loop = asyncio.get_running_loop()
        super().start()

    async def run_once(self) -> float:
        """Store the lines present now. Later lines wait for the next turn: otherwise a busy worker
        would send one small batch after another, and each has its cost."""
        self._is_pressed = False
        async with self._writing:
            left = len(self._rows)
            while left > 0:
                batch = list(islice(self._rows, min(left, _BATCH)))
                await self._writer.write(batch)
                self._forget(batch)
                left -= len(batch)
            await self._report_drops()
        return 0.0 if len(self._rows) >= _MANY else self._flush_seconds

    async def stop(self) -> None:
        """Wait for a write under way, then write the remaining lines, with a time limit in case the
        database is unavailable."""
        deadline = time.monotonic() + _LAST_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS), self._writing:
                await super().stop()
        await super().stop()
        while (self._rows or self._drops) and time.monotonic() < deadline:
            try:
                await self.run_once()
            except Exception:
                await asyncio.sleep(0.2)

    def _forget(self, batch: list[Row]) -> None:
        self.stored_total += len(batch)
        for _ in batch:
            self._rows.popleft()
        if self._surplus:
            with self._lock:
                self._set_surplus(self._surplus - sum(map(_surplus, batch)))

    async def _report_drops(self) -> None:
        with self._lock:
            lines, untold = self._drops.take()
        if not lines:
            return
        total = self._drops.total(lines) + untold
        self._log.warning("log lines were dropped", lines=total, attempts=len(lines))
        try:
            await self._writer.write(list(lines))
        except BaseException:
            with self._lock:
                self._drops.put_back(lines, untold)
            raise


def _surplus(row: Row) -> int:
    """The size of a line beyond the usual."""
    text, fields = len(row[8]), len(row[9] or b"")
    return text + fields if text > _SHORT or fields > _SHORT else 0
