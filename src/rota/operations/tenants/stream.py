"""The archive of a tenant, sent while it is written: a thread writes, the event loop sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, cast

import psycopg

from rota.errors import RotaError
from rota.postgres.audit import write_audit
from rota.postgres.sessions.pool import Database
from rota.postgres.tenants.export import write_archive

_CHUNK = 65_536
_WAITING = 8
# A client that reads nothing for this long counts as disconnected: the export holds a snapshot of
# the database.
_STALL_SECONDS = 300.0


class ArchiveStream:
    """`async for chunk in ArchiveStream(…).chunks()`. In every case, the audit records the end and
    the number of bytes sent."""

    def __init__(self, database: Database, name: str, actor: str | None) -> None:
        self._database, self._name, self._actor = database, name, actor
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._break_off: Callable[[], object] | None = None
        self._is_closed = False
        self._held = bytearray()
        self._sent = 0
        self.work: asyncio.Future[None] | None = None

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the bytes of the tar.gz. An error breaks the stream off, without the end of the
        archive."""
        self._loop = asyncio.get_running_loop()
        self.work = work = asyncio.ensure_future(asyncio.to_thread(self._write))
        try:
            while (chunk := await self._queue.get()) is not None:
                yield chunk
            await work
        finally:
            self._close(work)

    def _close(self, work: asyncio.Future[None]) -> None:
        """Stop without awaiting: a disconnected client has cancelled this task. The thread ends by
        itself."""
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get_nowait()
        if not work.done():
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
            if self._break_off is not None:
                self._break_off()

    # In the thread.

    def _write(self) -> None:
        facts: dict[str, Any] = {"is_complete": False}
        try:
            facts["rows"] = write_archive(
                self._database, self._name, cast(Any, self), on_open=self._opened
            )
            self._put(bytes(self._held))
            facts["is_complete"] = True
        finally:
            self._audit(facts | {"bytes": self._sent})
            with suppress(OSError):
                self._put(None)

    def _opened(self, conn: psycopg.Connection[Any]) -> None:
        self._break_off = conn.cancel

    def _audit(self, told: dict[str, Any]) -> None:
        entry = write_audit(
            self._actor, "tenant.exported", "tenant", self._name, after=told, tenant=self._name
        )
        try:
            self._database.run_sync(entry)
        except RotaError:
            if told["is_complete"]:
                raise  # otherwise the first error says more

    def write(self, data: bytes) -> int:
        """Send the data in chunks. Part of the interface of files."""
        self._held += data
        while len(self._held) >= _CHUNK:
            self._put(bytes(self._held[:_CHUNK]))
            del self._held[:_CHUNK]
        return len(data)

    def flush(self) -> None:
        """Do nothing: chunks are sent when they are full. Part of the interface of files."""

    def _put(self, chunk: bytes | None) -> None:
        if self._is_closed:
            raise BrokenPipeError("the archive is no longer being read")
        try:
            waiting = asyncio.run_coroutine_threadsafe(self._queue.put(chunk), self._loop)
            waiting.result(_STALL_SECONDS)
        except (TimeoutError, RuntimeError) as error:
            raise BrokenPipeError(f"the archive is no longer being read: {error!r}") from None
        self._sent += len(chunk or b"")
