"""Limits the number of connections, and how long a client may keep the server waiting.

Opening a connection needs no token, so idle connections are bounded: a request has to arrive
completely in time, and its response has to be read. When the maximum is reached, a new connection
replaces the one that has been idle longest.
"""

from __future__ import annotations

import asyncio
import resource
import time
from itertools import chain
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_SWEEP_SECONDS = 0.5
_MOST_IN_LINE = 512


class Room:
    """The open connections, up to a maximum. Each either works on a response, or waits for its
    client."""

    def __init__(self, places: int, header_seconds: float, unread_seconds: float) -> None:
        self._places = places
        self._header_seconds = header_seconds
        self._unread_seconds = unread_seconds
        self._all: set[Connection] = set()
        # When each wait began; the longest first. The time of bodies is limited where they are
        # read.
        self._silent: dict[Connection, float] = {}
        self._sending: dict[Connection, float] = {}
        self._unread: dict[Connection, float] = {}

    def enter(self, one: Connection) -> None:
        self._all.add(one)
        if len(self._all) > self._places:
            # The new connection itself, if all others are working.
            next(chain(self._silent, self._sending), one).drop()
        self.wait_for(one)

    def leave(self, one: Connection) -> None:
        self._all.discard(one)
        for waiting in (self._silent, self._sending, self._unread):
            waiting.pop(one, None)

    def wait_for(self, one: Connection) -> None:
        """Wait for a request; parts of a request do not extend the wait."""
        self._sending.pop(one, None)
        if one in self._all:
            self._silent.setdefault(one, time.monotonic())

    def wait_for_body(self, one: Connection) -> None:
        self._silent.pop(one, None)
        if one in self._all:
            self._sending.setdefault(one, time.monotonic())

    def work_for(self, one: Connection) -> None:
        self._silent.pop(one, None)
        self._sending.pop(one, None)

    def pause(self, one: Connection) -> None:
        """The client does not read its response."""
        if one in self._all:
            self._unread.setdefault(one, time.monotonic())

    def resume(self, one: Connection) -> None:
        self._unread.pop(one, None)

    async def keep(self) -> None:
        """Close connections that exceed their time, until cancelled."""
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, self._header_seconds / 4))
            self.sweep(time.monotonic())

    def sweep(self, now: float) -> None:
        for waiting, seconds in (
            (self._silent, self._header_seconds),
            (self._unread, self._unread_seconds),
        ):
            while waiting and now - next(iter(waiting.values())) >= seconds:
                next(iter(waiting)).drop()


class Connection(H11Protocol):
    """A connection of uvicorn, which by itself limits only the wait between two requests."""

    def __init__(self, *, room: Room, **given: Any) -> None:
        super().__init__(**given)
        self._room = room

    def drop(self) -> None:
        """Close at once; unread data is lost."""
        self._room.leave(self)
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._room.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            # The client broke the protocol after its response began: no error can be sent any more.
            self.drop()
        self._settle()

    def on_response_complete(self) -> None:
        self._room.wait_for(self)
        super().on_response_complete()
        self._settle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._room.pause(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._room.resume(self)

    def _settle(self) -> None:
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            self._room.wait_for(self)
        elif self.conn.their_state is h11.SEND_BODY:
            self._room.wait_for_body(self)
        else:
            self._room.work_for(self)


class Places(NamedTuple):
    """The maximum number of connections, and the backlog of the listening socket."""

    connections: int
    in_line: int


def find_places(wanted: int) -> Places:
    """Return fewer than wanted if the process may open fewer files: a server that cannot accept
    answers no one. Files are reserved for the database, and for connections that open while others
    close."""
    files = _allow_files(wanted + 4 * _MOST_IN_LINE)
    in_line = min(_MOST_IN_LINE, files // 4)
    return Places(max(1, min(wanted, files - 2 * in_line - files // 8)), in_line)


def _allow_files(wanted: int) -> int:
    """Raise the limit of open files to the wanted number, if allowed; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        return soft
    return allowed
