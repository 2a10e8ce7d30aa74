"""Connections on which every wait for the server is bounded.

TCP detects some failures (a server that vanished, a frozen proxy, a hanging backend); a bound on
the wait detects the others. The event loop never holds a descriptor that the driver may close.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors, waiting
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.pq.abc import PGconn

AsyncConn = psycopg.AsyncConnection[Any]
Conn = psycopg.Connection[Any]
T = TypeVar("T")

# Bound of the longest statement; callers that need a shorter one pass it when connecting.
ANSWER_SECONDS = 600.0
CALL_OFF_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class NoAnswer(psycopg.OperationalError):
    """The server accepts data, or seems to, but has not answered within the bound."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server did not respond within {seconds:g} s")


class AsyncBoundedConnection(psycopg.AsyncConnection[Any]):
    """An async connection with bounded waits. An interrupted statement is cancelled on the server;
    if the server does not answer the cancel request either, the connection is closed."""

    answer_seconds = ANSWER_SECONDS
    # Whether the session (a prepared statement) outlives the transaction.
    keeps_session = True

    async def wait(
        self,
        gen: Generator[Any, Any, T],
        interval: float = _LOOK_SECONDS,
        timeout: float | None = None,
    ) -> T:
        own = os.dup(self.pgconn.socket)
        seconds = min(timeout or self.answer_seconds, self.answer_seconds)
        try:
            async with asyncio.timeout(seconds):
                return await waiting.wait_async(gen, own, interval)
        except TimeoutError:
            await self._call_off(gen, own)
            raise NoAnswer(seconds) from None
        except asyncio.CancelledError:
            await self._call_off(gen, own)
            raise
        finally:
            os.close(own)

    async def _call_off(self, gen: Generator[Any, Any, Any], own: int) -> None:
        if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        is_over = False
        try:
            async with asyncio.timeout(CALL_OFF_SECONDS):
                await self.cancel_safe(timeout=CALL_OFF_SECONDS)
                with suppress(errors.QueryCanceled):
                    await waiting.wait_async(gen, own, _LOOK_SECONDS)
            is_over = True
        except (TimeoutError, psycopg.Error, OSError):
            pass
        finally:
            # Also on a second interruption: the connection must have no statement under way.
            if not is_over:
                gen.close()
                self.pgconn.finish()


class BoundedConnection(psycopg.Connection[Any]):
    """The synchronous counterpart of `AsyncBoundedConnection`."""

    answer_seconds = ANSWER_SECONDS
    keeps_session = True

    def wait(
        self,
        gen: Generator[Any, Any, T],
        interval: float = _LOOK_SECONDS,
        timeout: float | None = None,
    ) -> T:
        seconds = min(timeout or self.answer_seconds, self.answer_seconds)
        try:
            return super().wait(_bounded(gen, seconds), interval)
        except NoAnswer:
            self._call_off(gen)
            raise

    def _call_off(self, gen: Generator[Any, Any, Any]) -> None:
        try:
            self.cancel_safe(timeout=CALL_OFF_SECONDS)
            with suppress(errors.QueryCanceled):
                super().wait(_bounded(gen, CALL_OFF_SECONDS), _LOOK_SECONDS)
        except (psycopg.Error, OSError):
            gen.close()
            self.pgconn.finish()


def _bounded(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """Wrap the driver's generator; raise NoAnswer if no data arrives before the deadline."""
    deadline = time.monotonic() + seconds
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and time.monotonic() > deadline:
                raise NoAnswer(seconds)
            state = gen.send(ready)
    except StopIteration as done:
        answer: T = done.value
        return answer


def is_alive(conn: AsyncConn | Conn) -> bool:
    """Return whether an idle connection is usable, without a round trip: reading its socket reveals
    that the server has closed it."""
    return is_handle_alive(conn.pgconn)


def is_handle_alive(pgconn: PGconn) -> bool:
    if pgconn.status != ConnStatus.OK:
        return False
    look = select.poll()
    look.register(pgconn.socket, select.POLLIN)
    try:
        while look.poll(0):
            pgconn.consume_input()
    except (psycopg.Error, OSError):
        return False
    return True


def break_off(conn: AsyncConn | Conn) -> None:
    """Make pending waits on the connection fail at once. A connection with an active statement is
    only shut down, because closing it would free the socket and the driver's memory while another
    caller uses them; an inactive one is closed."""
    if conn.closed:
        return
    if conn.pgconn.transaction_status != TransactionStatus.ACTIVE:
        conn.pgconn.finish()
    else:
        shut(conn)


def shut(conn: AsyncConn | Conn) -> None:
    """Make all present and future uses of the connection fail; its owner closes it."""
    if not conn.closed:
        with socket.socket(fileno=os.dup(conn.fileno())) as own, suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)
