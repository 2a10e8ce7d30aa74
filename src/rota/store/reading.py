"""Reads a connection in its socket's own callback, and not through the driver's generator.

On an idle worker a run waits while the event loop turns: each turn saved is part of its latency.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psycopg

from rota.store.pool import AsyncConn


class Reading:
    """Calls `read` whenever bytes have come in, until `stop`. What it raises goes to `ended`."""

    def __init__(self, conn: AsyncConn, read: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pgconn = conn.pgconn
        self._read = read
        self._socket: int | None = conn.fileno()
        self._has_writer = False
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._socket, self._hear)

    def _hear(self) -> None:
        try:
            self._pgconn.consume_input()
            self._read()
        except Exception as error:
            # At once: the driver has closed the socket, and its number may soon be another's.
            self.stop(error)

    def stop(self, error: Exception | None = None) -> None:
        socket, self._socket = self._socket, None
        if socket is None:
            return
        self._loop.remove_reader(socket)
        if self._has_writer:
            self._loop.remove_writer(socket)
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)

    def renew(self) -> asyncio.Future[None]:
        """The future of somebody who goes on after the first one was cancelled."""
        self.ended = self._loop.create_future()
        if self._socket is None:
            self.ended.set_result(None)
        return self.ended

    def send_rest(self) -> None:
        """What the driver still holds for the server, as the socket takes it."""
        if self._socket is not None:
            self._has_writer = True
            self._loop.add_writer(self._socket, self._send_more)

    def _send_more(self) -> None:
        try:
            if self._socket is None or self._pgconn.flush():
                return
            self._loop.remove_writer(self._socket)
            self._has_writer = False
        except psycopg.Error as error:
            self.stop(error)
            return
        # The driver reads while it cannot write: what has come may be in its hands already.
        self._hear()
