"""Log lines on their way to the database: never in the handler's way, bounded, in batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, NamedTuple

import msgspec
from pydantic_core import to_json

from rota.runtime.loop import Loop
from rota.store.pool import Database

_BATCH = 1000
_EARLY = 100


class Line(NamedTuple):
    written: float
    run_id: int
    worker: int
    attempt: int
    seq: int
    level: str
    job: str
    tenant: str
    message: str
    fields: str | None


class LogBuffer(Loop):
    """Handlers add lines from any thread; they are stored every few seconds or hundred lines."""

    name = "logs"

    def __init__(
        self, database: Database, *, buffer_lines: int, flush_seconds: float, line_bytes: int
    ) -> None:
        super().__init__()
        self._database = database
        self._limit = buffer_lines
        self._flush_seconds = flush_seconds
        self._line_bytes = line_bytes
        self._lines: deque[Line] = deque()
        self._lock = threading.Lock()
        self.dropped = 0

    def add(
        self, run_id: int, worker: int, attempt: int, seq: int,
        level: str, job: str, tenant: str, message: str, fields: dict[str, Any],
    ) -> None:  # fmt: skip
        text = encode_fields(fields, self._line_bytes) if fields else None
        line = Line(
            time.monotonic(), run_id, worker, attempt, seq, level, job, tenant,
            cut(clean(message), self._line_bytes), text,
        )  # fmt: skip
        with self._lock:
            if len(self._lines) >= self._limit:
                self.dropped += 1
                return
            self._lines.append(line)

    @property
    def is_early(self) -> bool:
        """Enough lines wait that the flush should not."""
        return len(self._lines) >= _EARLY

    async def run_once(self) -> float:
        while self._lines:
            batch = list(self._lines)[:_BATCH]
            await self._write(batch)
            with self._lock:
                for _ in batch:
                    self._lines.popleft()
        if self.dropped:
            self._log.warning("log lines were dropped", lines=self.dropped)
            self.dropped = 0
        return self._flush_seconds

    async def _write(self, batch: list[Line]) -> None:
        now = time.monotonic()
        columns = list(zip(*batch, strict=True))
        names = (
            "run_ids", "workers", "attempts", "seqs", "levels", "jobs", "tenants", "messages",
            "fields",
        )  # fmt: skip
        params: dict[str, Any] = {
            name: list(column) for name, column in zip(names, columns[1:], strict=True)
        }
        params["ages"] = [now - written for written in columns[0]]
        async with self._database.connection() as conn:
            await conn.execute(self._database.statements.get("logs/write"), params)


def clean(text: str) -> str:
    """Text that Postgres can hold: NUL and lone surrogates become visible marks."""
    if "\x00" in text:
        text = text.replace("\x00", "␀")
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def cut(text: str, limit: int) -> str:
    if len(text) <= limit // 4 or len(text.encode()) <= limit:
        return text
    kept = text.encode()[:limit].decode("utf-8", "ignore")
    return f"{kept}… [cut, {len(text.encode())} bytes]"


def encode_fields(fields: dict[str, Any], limit: int) -> str:
    """The fields as JSON; what JSON cannot hold goes as its text, what is too long is cut."""
    try:
        text = msgspec.json.encode(fields).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        text = to_json(fields, fallback=repr, serialize_unknown=True).decode()
    text = text.replace("\\u0000", "␀")
    if len(text) > limit:
        return msgspec.json.encode({"cut": cut(clean(text), limit)}).decode()
    return text
