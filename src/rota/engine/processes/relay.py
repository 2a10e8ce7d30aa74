"""Receives calls for `rota worker --processes N`: one connection of the parent listens for all its
workers and passes each call to the worker that it is meant for.

A thread with its own event loop. It is connected to each worker by a pair of sockets that carry
lines of JSON: to the worker calls, and whether they can be relied on; back from it messages for the
worker that performs the upkeep.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from rota.engine.lease.health import Health
from rota.engine.listener import Listener
from rota.postgres.sessions.pool import Database
from rota.telemetry.logger import get_logger

# Messages other than calls. A worker that has missed some polls.
LISTENING, DEAF, MISSED, WAKE = "listening", "deaf", "missed", "wake"
# A worker with more unread bytes gets no messages: it is blocked.
_MOST_UNREAD = 64 * 1024


class Relay:
    """Has one channel for each place of a worker; a worker process joins the channel of its
    place."""

    def __init__(self, database: Database, channels: Sequence[str], *, patience: float) -> None:
        self._log = get_logger("supervisor")
        self._health = Health(database.outage, patience=patience)
        self._listener = Listener(
            database,
            channels=channels,
            on_call=self._called,
            on_change=self._changed,
            turns=self._health.of("listener"),
        )
        self._lines: dict[str, _Line] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rota relay", daemon=True)
        self._is_awake = False
        # The channel of the worker that performs the upkeep.
        self.duty: str | None = None

    # Called by the supervisor's thread.

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        self._do(self._loop.stop)
        self._thread.join(timeout)

    def join(self, channel: str, end: socket.socket) -> None:
        """A worker process was started, with the other end of the pair."""
        self._do(self._join, channel, end)

    def leave(self, channel: str) -> None:
        self._do(self._leave, channel)

    def set_awake(self, is_awake: bool) -> None:
        """While all workers sleep, none is called, and no connection is kept."""
        if is_awake != self._is_awake:
            self._is_awake = is_awake
            self._do(self._listener.start if is_awake else self._listener.leave)

    def wake(self, channel: str) -> None:
        self._do(self._send, channel, WAKE)

    def _do(self, step: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(step, *arguments)

    # In the thread.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        await self._listener.stop()
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.close()

    def _join(self, channel: str, end: socket.socket) -> None:
        self._leave(channel)
        self._lines[channel] = _Line(end, self._said)
        self._send(channel, LISTENING if self._listener.is_listening else DEAF)

    def _leave(self, channel: str) -> None:
        line = self._lines.pop(channel, None)
        if line is not None:
            line.closing = self._loop.create_task(line.close())

    def _called(self, words: str, channel: str) -> None:
        for target in list(self._lines) if channel == self._listener.common else [channel]:
            self._send(target, words)

    def _changed(self, is_listening: bool) -> None:
        for channel in list(self._lines):
            self._send(channel, LISTENING if is_listening else DEAF)

    def _said(self, words: str) -> None:
        """Forward a worker's message to the worker that performs the upkeep."""
        if self.duty is not None:
            self._send(self.duty, words)

    def _send(self, channel: str, words: str) -> None:
        line = self._lines.get(channel)
        if line is not None:
            line.send(words)


class _Line:
    """The connection to one worker."""

    def __init__(self, end: socket.socket, on_word: Callable[[str], None]) -> None:
        self._on_word = on_word
        self._writer: asyncio.StreamWriter | None = None
        self._unsent: list[str] = []
        self._has_missed = False
        self._task = asyncio.get_running_loop().create_task(self._read(end))
        self.closing: asyncio.Task[None] | None = None

    def send(self, words: str) -> None:
        if self._writer is None:
            self._unsent.append(words)
            return
        if self._writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            self._has_missed = True
            return
        if self._has_missed:
            self._has_missed = False
            self._writer.write(to_line(MISSED))
        self._writer.write(to_line(words))

    async def _read(self, end: socket.socket) -> None:
        reader, self._writer = await asyncio.open_connection(sock=end)
        unsent, self._unsent = self._unsent, []
        for words in unsent:
            self.send(words)
        with suppress(OSError):
            while line := await reader.readline():
                self._on_word(from_line(line))

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._writer is not None:
            self._writer.close()


def to_line(words: str) -> bytes:
    return json.dumps(words).encode() + b"\n"


def from_line(line: bytes) -> str:
    return str(json.loads(line))
