"""Reads a connection in its socket's own callback instead of the driver's generator.

On an idle worker every turn of the event loop adds to a run's latency.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from rota.postgres.sessions.connection import AsyncConn


class Reading:
    """Calls `read` whenever bytes arrive, until `stop`. An exception of `read` is set on `ended`.

    The event loop gets a duplicate descriptor of the socket: the driver may close its own at any
    time, and the next connection could get the same number while the event loop still uses it.
    """

    def __init__(
        self, conn: AsyncConn, read: Callable[[], None], *, has_rest: bool = False
    ) -> None:
        """`has_rest`: the driver has unsent data for the server."""
        self._loop = asyncio.get_running_loop()
        self._pgconn = conn.pgconn
        self._read = read
        self._has_rest = has_rest
        self._is_over = False
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._socket = os.dup(conn.fileno())
        self._arm()

    def _arm(self) -> None:
        self._loop.add_reader(self._socket, self._turn)
        if self._has_rest:
            self._loop.add_writer(self._socket, self._turn)
        self._is_armed = True

    def _disarm(self) -> None:
        if self._is_armed:
            self._is_armed = False
            self._loop.remove_reader(self._socket)
            if self._has_rest:
                self._loop.remove_writer(self._socket)

    def _turn(self) -> None:
        # Armed again each time: uvloop ends a handle at the first error of its socket, calls it
        # once more and then never again, although the server's last message is still unread.
        self._disarm()
        try:
            if self._has_rest:
                self._has_rest = bool(self._pgconn.flush())
            # Also when the socket is only writable: the driver must read while it cannot write.
            self._pgconn.consume_input()
            self._read()
        except Exception as error:
            self.stop(error)
        if not self._is_over:
            self._arm()

    def stop(self, error: Exception | None = None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._disarm()
        os.close(self._socket)
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)

    def give_up(self, error: Exception) -> None:
        """End the wait with an error; the statement goes on, see `renew`."""
        if not self.ended.done():
            self.ended.set_exception(error)

    def renew(self) -> asyncio.Future[None]:
        """Return a new future for the rest of the work, after the first wait has ended."""
        self.ended = self._loop.create_future()
        if self._is_over:
            self.ended.set_result(None)
        return self.ended
