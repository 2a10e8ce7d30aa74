"""Sessions in which users' code runs, kept from one attempt to the next.

Never lent to two, never more than there are slots, and given back to the server after a minute of
rest. To open one costs the server ten times what an attempt in it does.
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
from rota.store.sessions.connection import is_handle_alive
from rota.store.sessions.lent import AsyncLentConnection, LentConnection, detach
from rota.store.sessions.opening import lent
from rota.store.sessions.outage import is_shortage

IDLE_SECONDS = 60.0
_LIFE_SECONDS = 3600.0
# Where the server has no connection left, somebody may give one back.
WAIT_SECONDS = 30.0
_LONGEST_PAUSE = 1.0


class KeptSessions:
    """For async and sync attempts alike: what rests is the bare handle."""

    def __init__(self, url: Callable[[], str], *, worker: int, size: int) -> None:
        self._url = url
        # Rescue ends the backends of a lost worker by such names; see executors/lending.py.
        self._name = f"rota run - worker {worker}"
        self._size = size
        self._changing = threading.Lock()
        self._resting: deque[tuple[float, PGconn]] = deque()
        self._born: dict[PGconn, float] = {}
        self._is_closed = False
        # Which database they are in, once somebody has asked.
        self.identity: str | None = None

    @property
    def open(self) -> int:
        """How many there are, at work or at rest."""
        return len(self._born)

    @property
    def rest_seconds(self) -> float | None:
        """How long until one has rested long enough; None: none rests."""
        with self._changing:
            if not self._resting:
                return None
            return max(0.0, self._resting[0][0] + IDLE_SECONDS - time.monotonic())

    async def get(self, *, is_new: bool = False) -> PGconn:
        """One in no transaction, as it is after its start; `is_new`: none that has rested."""
        patience = _Patience()
        while (handle := None if is_new else self._take()) is None:
            try:
                conn = await AsyncLentConnection.connect(self._url(), **lent(self._name))
                return self._opened(detach(conn))
            except psycopg.OperationalError as error:
                await asyncio.sleep(patience.after(error))
        return handle

    def get_sync(self, *, is_new: bool = False) -> PGconn:
        patience = _Patience()
        while (handle := None if is_new else self._take()) is None:
            try:
                conn = LentConnection.connect(self._url(), **lent(self._name))
                return self._opened(detach(conn))
            except psycopg.OperationalError as error:
                time.sleep(patience.after(error))
        return handle

    def put(self, handle: PGconn) -> None:
        """It has been reset. One that is broken, old, or one too many is ended."""
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
        """End it: the server rolls back what is left."""
        with self._changing:
            self._born.pop(handle, None)
        handle.finish()

    def trim(self) -> None:
        """End what has rested long enough."""
        if not self._resting:
            return
        oldest = time.monotonic() - IDLE_SECONDS
        while (handle := self._take_older(oldest)) is not None:
            self.drop(handle)

    def close(self) -> None:
        """End what rests; what is at work ends when it is given back."""
        self._is_closed = True
        while (handle := self._take_older(float("inf"))) is not None:
            self.drop(handle)

    def _take(self) -> PGconn | None:
        """The one that worked last, so that the others get old."""
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
    """How long to wait for a server that has no connection left."""

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
