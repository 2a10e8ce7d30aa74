"""Pools of connections, each lent to one caller at a time.

If none is free, the caller opens one itself, so that it gets the error of an outage at once. A
connection that ended while it was idle is detected before it is lent.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from rota.postgres.sessions.connection import AsyncConn, Conn, is_alive

SIZE = 10
_WAIT_SECONDS = 30.0
# Idle connections are closed, except one; no connection is kept for ever.
_IDLE_SECONDS = 60.0
_LIFE_SECONDS = 3600.0
# How long a sparing pool waits before it opens another connection, if one, two, … are lent: on a
# server that is merely busy (fifty workers that start at once) more connections only add work.
_PATIENCE = (0.02, 0.25, 1.0, 2.0)
_UNHURRIED = 1.0
_UNFINISHED = (TransactionStatus.INTRANS, TransactionStatus.INERROR)

C = TypeVar("C", AsyncConn, Conn)


class AllInUse(psycopg.OperationalError):
    """No connection was returned in time."""

    sqlstate = "53300"

    def __init__(self) -> None:
        super().__init__(
            f"all {SIZE} connections of this process were in use for {_WAIT_SECONDS:g} s"
        )


class _Resting(Generic[C]):
    """Idle connections. The one used last is lent first, so that surplus ones reach the idle
    limit."""

    def __init__(self) -> None:
        self._conns: deque[tuple[float, C]] = deque()
        self._born: WeakKeyDictionary[C, float] = WeakKeyDictionary()
        self._is_closed = False

    def take(self) -> C | None:
        while self._conns:
            _, conn = self._conns.pop()
            if is_alive(conn):
                return conn
            _end(conn)
        return None

    def is_good(self, conn: C) -> bool:
        """Return whether the connection can be lent again."""
        now = time.monotonic()
        is_old = now - self._born.setdefault(conn, now) > _LIFE_SECONDS
        is_idle = conn.pgconn.transaction_status == TransactionStatus.IDLE
        return is_idle and not is_old and not self._is_closed and is_alive(conn)

    def add(self, conn: C) -> None:
        if not self.is_good(conn):
            _end(conn)
            return
        now = time.monotonic()
        self._conns.append((now, conn))
        while len(self._conns) > 1 and now - self._conns[0][0] > _IDLE_SECONDS:
            _end(self._conns.popleft()[1])

    def close(self) -> None:
        self._is_closed = True
        self.clear()

    def clear(self) -> None:
        """Close the connections that are idle now; others may be added later."""
        while self._conns:
            _end(self._conns.popleft()[1])


def _end(conn: AsyncConn | Conn) -> None:
    conn.pgconn.finish()


class AsyncPool:
    """A pool for one event loop.

    A sparing pool opens a further connection only after waiting for one of the lent connections:
    statements are short, so a worker needs only one or two.
    """

    def __init__(self, connect: Callable[[], Awaitable[AsyncConn]]) -> None:
        self._connect = connect
        self._resting: _Resting[AsyncConn] = _Resting()
        self._lent = 0
        self._queue: deque[asyncio.Future[AsyncConn | None]] = deque()
        self.is_sparing = False

    async def get(self, *, is_hurried: bool = True) -> AsyncConn:
        began = time.monotonic()
        while (conn := self._resting.take()) is None:
            # Re-check after each wait, so that simultaneous waiters do not all open a connection.
            seconds = began + self._seconds(is_hurried) - time.monotonic()
            if seconds > 0:
                if (returned := await self._wait(seconds)) is not None:
                    return returned
            elif self._lent >= SIZE:
                raise AllInUse
            else:
                return await self._open()
        self._lent += 1
        return conn

    async def put(self, conn: AsyncConn) -> None:
        try:
            if conn.pgconn.transaction_status in _UNFINISHED:
                with suppress(psycopg.Error):
                    await conn.rollback()
        finally:
            self._give_back(conn)

    def close(self) -> None:
        self._resting.close()

    def clear(self) -> None:
        """Close the idle connections."""
        self._resting.clear()

    def _seconds(self, is_hurried: bool) -> float:
        """Return how long to wait for a connection to be returned."""
        if self._lent >= SIZE:
            return _WAIT_SECONDS
        if not self.is_sparing or not self._lent:
            return 0.0
        seconds = _PATIENCE[min(self._lent, len(_PATIENCE)) - 1]
        return seconds if is_hurried else max(seconds, _UNHURRIED)

    async def _wait(self, seconds: float) -> AsyncConn | None:
        """Return a connection that another caller returned in time. None: none was returned, or
        there is room for another."""
        turn: asyncio.Future[AsyncConn | None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await asyncio.wait([turn], timeout=seconds)
        except asyncio.CancelledError:
            if turn.done():
                self._pass_on(turn.result())
            raise
        finally:
            with suppress(ValueError):
                self._queue.remove(turn)
        return turn.result() if turn.done() else None

    async def _open(self) -> AsyncConn:
        self._lent += 1
        try:
            return await self._connect()
        except BaseException as error:
            self._lent -= 1
            if not self._lent or not isinstance(error, psycopg.Error | OSError):
                self._call_next(None)
                raise
            failure = error
        # The server may have no connection left; wait for one of ours to be returned.
        returned = await self._wait(_WAIT_SECONDS)
        if returned is None:
            raise failure
        return returned

    def _give_back(self, conn: AsyncConn) -> None:
        is_good = self._resting.is_good(conn)
        if is_good and self._call_next(conn):
            return
        self._lent -= 1
        if is_good:
            self._resting.add(conn)
        else:
            _end(conn)
            self._call_next(None)

    def _pass_on(self, conn: AsyncConn | None) -> None:
        """Pass a connection on, because its waiter was cancelled."""
        if conn is None:
            self._call_next(None)
        else:
            self._give_back(conn)

    def _call_next(self, conn: AsyncConn | None) -> bool:
        """Give the connection to the caller that has waited longest, or let it open one."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(conn)
                return True
        return False


class SyncPool:
    """A pool for threads."""

    def __init__(self, connect: Callable[[], Conn]) -> None:
        self._connect = connect
        self._resting: _Resting[Conn] = _Resting()
        self._turns = threading.Semaphore(SIZE)

    def get(self) -> Conn:
        if not self._turns.acquire(timeout=_WAIT_SECONDS):
            raise AllInUse
        try:
            return self._resting.take() or self._connect()
        except BaseException:
            self._turns.release()
            raise

    def put(self, conn: Conn) -> None:
        try:
            if conn.pgconn.transaction_status in _UNFINISHED:
                with suppress(psycopg.Error):
                    conn.rollback()
            self._resting.add(conn)
        finally:
            self._turns.release()

    def close(self) -> None:
        self._resting.close()

    def clear(self) -> None:
        self._resting.clear()
