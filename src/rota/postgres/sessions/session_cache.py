"""Sessions for users' code, kept from one attempt to the next.

A session is never lent to two attempts, there are never more sessions than slots, and a session
that was idle for a minute is closed. Opening a session costs the server ten times as much as an
attempt in it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from rota.errors import DatabaseError
from rota.postgres.sessions.borrowed import AsyncBorrowedConnection, BorrowedConnection, detach
from rota.postgres.sessions.connection import is_handle_alive
from rota.postgres.sessions.opening import lent
from rota.postgres.sessions.outage import is_shortage

IDLE_SECONDS = 60.0
_LIFE_SECONDS = 3600.0
# How long to wait if the server has no connection left; one may become free.
WAIT_SECONDS = 30.0
_LONGEST_PAUSE = 1.0


class SessionCache:
    """Serves async and sync attempts, because it keeps only the libpq handles."""

    def __init__(self, url: Callable[[], str], *, worker: int, size: int) -> None:
        self._url = url
        # Rescue terminates the backends of a lost worker by this name
        # (engine/executors/attempt_session.py).
        self._name = f"rota run - worker {worker}"
        self._size = size
        self._changing = threading.Lock()
        self._resting: deque[tuple[float, PGconn]] = deque()
        self._born: dict[PGconn, float] = {}
        self._is_closed = False
        # The database of these sessions, once it has been read.
        self.identity: str | None = None

    @property
    def open(self) -> int:
        """The number of sessions, lent or idle."""
        return len(self._born)

    @property
    def rest_seconds(self) -> float | None:
        """Seconds until the next idle session is due to be closed; None if none is idle."""
        with self._changing:
            if not self._resting:
                return None
            return max(0.0, self._resting[0][0] + IDLE_SECONDS - time.monotonic())

    async def get(self, *, is_new: bool = False) -> PGconn:
        """Return a session outside a transaction, in its initial state; `is_new` opens a new one
        instead of using an idle one."""
        patience = _Patience()
        while (handle := None if is_new else self._take()) is None:
            try:
                conn = await AsyncBorrowedConnection.connect(self._url(), **lent(self._name))
                return self._opened(detach(conn))
            except psycopg.OperationalError as error:
                await asyncio.sleep(patience.after(error))
        return handle

    def get_sync(self, *, is_new: bool = False) -> PGconn:
        patience = _Patience()
        while (handle := None if is_new else self._take()) is None:
            try:
                conn = BorrowedConnection.connect(self._url(), **lent(self._name))
                return self._opened(detach(conn))
            except psycopg.OperationalError as error:
                time.sleep(patience.after(error))
        return handle

    def put(self, handle: PGconn) -> None:
        """Keep a session that has been reset. Close it if it is broken, too old or surplus."""
        now = time.monotonic()
        with self._changing:
            born = self._born.get(handle, 0.0)
            if (
                handle.transaction_status == TransactionStatus.IDLE
                and handle.pipeline_status == PipelineStatus.OFF
                and now - born < _LIFE_SECONDS
                and len(self._born) <= self._size
                and not self._is_closed
            ):
                self._resting.append((now, handle))
                return
        self.drop(handle)

    def drop(self, handle: PGconn) -> None:
        """Close a session; the server rolls back its transaction."""
        with self._changing:
            self._born.pop(handle, None)
        handle.finish()

    def trim(self) -> None:
        """Close sessions that have been idle for too long."""
        if not self._resting:
            return
        oldest = time.monotonic() - IDLE_SECONDS
        while (handle := self._take_older(oldest)) is not None:
            self.drop(handle)

    def close(self) -> None:
        """Close idle sessions; lent ones are closed when they are returned."""
        self._is_closed = True
        while (handle := self._take_older(float("inf"))) is not None:
            self.drop(handle)

    def _take(self) -> PGconn | None:
        """Take the session that was used last, so that surplus ones reach the idle limit."""
        while True:
            with self._changing:
                if not self._resting:
                    return None
                _, handle = self._resting.pop()
            if is_handle_alive(handle):
                return handle
            self.drop(handle)

    def _take_older(self, moment: float) -> PGconn | None:
        with self._changing:
            if self._resting and self._resting[0][0] < moment:
                return self._resting.popleft()[1]
        return None

    def _opened(self, handle: PGconn) -> PGconn:
        with self._changing:
            self._born[handle] = time.monotonic()
        return handle


class _Patience:
    """Backoff while the server has no connection left."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + WAIT_SECONDS
        self._pause = 0.05

    def after(self, error: psycopg.OperationalError) -> float:
        if not is_shortage(error):
            raise error
        if time.monotonic() > self._deadline:
            raise DatabaseError(
                f"ctx.transaction() got no connection within {WAIT_SECONDS:g} s: {error}",
                sqlstate="53300",
                hint="lower worker.concurrency, raise max_connections, or use a connection pooler",
            ) from error
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return self._pause
