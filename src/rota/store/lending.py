"""Connections that are lent: used by one at a time, kept for the next.

Whoever needs one connects by himself where none rests, so an outage is told at once and as it is;
one that ended while it rested is found out before it is lent.
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

from rota.store.connection import AsyncConn, Conn, is_alive

SIZE = 10
_WAIT_SECONDS = 30.0
# Those that nobody needs any more are closed, all but one; none is kept for ever.
_IDLE_SECONDS = 60.0
_LIFE_SECONDS = 3600.0
_UNFINISHED = (TransactionStatus.INTRANS, TransactionStatus.INERROR)

C = TypeVar("C", AsyncConn, Conn)


class AllInUse(psycopg.OperationalError):
    """Nobody gave a connection back in time."""

    sqlstate = "53300"

    def __init__(self) -> None:
        super().__init__(
            f"all {SIZE} connections of this process were in use for {_WAIT_SECONDS:g} s"
        )


class _Resting(Generic[C]):
    """The one that was used last is lent first, so that the others get old."""

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

    def add(self, conn: C) -> None:
        now = time.monotonic()
        is_old = now - self._born.setdefault(conn, now) > _LIFE_SECONDS
        if conn.pgconn.transaction_status != TransactionStatus.IDLE or is_old or self._is_closed:
            _end(conn)
            return
        self._conns.append((now, conn))
        while len(self._conns) > 1 and now - self._conns[0][0] > _IDLE_SECONDS:
            _end(self._conns.popleft()[1])

    def close(self) -> None:
        self._is_closed = True
        while self._conns:
            _end(self._conns.popleft()[1])


def _end(conn: AsyncConn | Conn) -> None:
    conn.pgconn.finish()


class AsyncPool:
    """For one event loop."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncConn]]) -> None:
        self._connect = connect
        self._resting: _Resting[AsyncConn] = _Resting()
        self._turns = asyncio.Semaphore(SIZE)

    async def get(self) -> AsyncConn:
        if self._turns.locked():
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    await self._turns.acquire()
            except TimeoutError:
                raise AllInUse from None
        else:
            await self._turns.acquire()
        try:
            return self._resting.take() or await self._connect()
        except BaseException:
            self._turns.release()
            raise

    async def put(self, conn: AsyncConn) -> None:
        try:
            if conn.pgconn.transaction_status in _UNFINISHED:
                with suppress(psycopg.Error):
                    await conn.rollback()
            self._resting.add(conn)
        finally:
            self._turns.release()

    def close(self) -> None:
        self._resting.close()


class SyncPool:
    """For threads."""

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
