"""Receives the calls of a worker whose supervisor listens for it (relay.py)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from rota.engine.processes.relay import DEAF, LISTENING, MISSED, WAKE, from_line, to_line
from rota.engine.tasks import end_task


class RelayedListener:
    """Takes the place of `Listener` in a worker with a supervisor. It has no database connection;
    messages arrive as long as the process lives, and while it is stopped it passes on `wake`
    only."""

    def __init__(
        self,
        end: socket.socket,
        channel: str,
        *,
        on_call: Callable[[str, str], None],
        on_change: Callable[[bool], None],
        on_wake: Callable[[], None],
    ) -> None:
        self._end = end
        self.channel = channel
        self._on_call = on_call
        self._on_change = on_change
        self._on_wake = on_wake
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._is_active = False
        self._is_parent_listening = False
        self.is_listening = False

    def start(self) -> None:
        self._is_active = True
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="rota relayed calls")
        self._set()

    def restart(self) -> None:
        """Do nothing: the loop only reads, and cannot get stuck."""

    async def stop(self) -> None:
        self._is_active = False
        self._set()

    async def end(self) -> None:
        await self.stop()
        task, self._task = self._task, None
        await end_task(task)
        if self._writer is not None:
            self._writer.close()

    def say(self, words: str) -> None:
        """Send a message to the supervisor's worker that performs the upkeep."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(to_line(words))

    async def _run(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._end)
        with suppress(OSError):
            while line := await reader.readline():
                self._hear(from_line(line))
        self._is_parent_listening = False
        self._set()

    def _hear(self, words: str) -> None:
        if words in (LISTENING, DEAF):
            self._is_parent_listening = words == LISTENING
            self._set()
        elif words in (MISSED, WAKE):
            self._on_wake()
        elif self._is_active:
            self._on_call(words, self.channel)

    def _set(self) -> None:
        is_listening = self._is_active and self._is_parent_listening
        if is_listening != self.is_listening:
            self.is_listening = is_listening
            self._on_change(is_listening)
