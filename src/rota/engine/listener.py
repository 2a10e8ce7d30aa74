"""Receives the calls of enqueues and operators. A call may be lost; polling finds whatever it
announced."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial

import psycopg
from psycopg.pq.abc import PGconn

from rota.engine.lease.health import Turns
from rota.engine.tasks import abandon, end_task
from rota.postgres.pipeline.reading import Reading
from rota.postgres.sessions.pool import AsyncConn, Database
from rota.postgres.workers import calls
from rota.telemetry.logger import get_logger

_PROBE_SECONDS = 30.0
_PROBE_WAIT = 10.0
_ANSWER_SECONDS = 10.0
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def new_channel() -> str:
    return f"rota_{secrets.token_hex(8)}"


class Listener:
    """LISTENs on a connection of its own, checks the connection, and reconnects after errors.

    `on_call` gets the payload of each call and its channel; `on_change` gets whether calls are
    received.
    """

    def __init__(
        self,
        database: Database,
        *,
        channels: Sequence[str] = (),
        on_call: Callable[[str, str], None],
        on_change: Callable[[bool], None],
        turns: Turns,
    ) -> None:
        self._database = database
        self._turns = turns
        self._on_call = on_call
        self._on_change = on_change
        self._log = get_logger("listener")
        self._task: asyncio.Task[None] | None = None
        self._probe = f"probe {id(self)} {time.monotonic_ns()}"
        self._heard_at = 0.0
        # One per worker, so that a call for one worker wakes no other.
        self._channels = list(channels) or [new_channel()]
        # The channel of all workers of the schema; known once the connection listens.
        self.common = ""
        self._leaving: asyncio.Task[None] | None = None
        self.is_listening = False
        self._has_said_polling = False

    def start(self) -> None:
        """Harmless if it listens already."""
        if self._task is not None:
            return
        if not self._database.has_sessions:
            if self._has_said_polling:
                return
            self._has_said_polling = True
            self._log.warning(
                "polling for work: the pooler is in transaction mode and does not support LISTEN",
                hint="set database.direct_url to the address of the server itself",
            )
            return
        self._task = asyncio.create_task(self._run(), name="rota listener")

    def restart(self) -> None:
        """The task is stuck: abandon it, and start another one."""
        if self._task is not None:
            abandon(self._task)
            self._task = None
            self.start()

    @property
    def channel(self) -> str:
        return self._channels[0]

    def leave(self) -> None:
        """Stop without waiting."""
        self._leaving = asyncio.get_running_loop().create_task(self.stop())

    async def end(self) -> None:
        await self.stop()

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_task(task)
        self._turns.forget()

    async def _run(self) -> None:
        tries = 0
        while True:
            try:
                self._turns.begin()
                conn = await self._database.connect("rota listener", _ANSWER_SECONDS, session=True)
                tries = 0
                async with conn:
                    await self._listen(conn)
            except Exception as error:
                pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
                tries += 1
                if self._turns.failed(error):
                    self._log.warning(
                        "the LISTEN connection broke; polling until it is restored", error=error
                    )
                await asyncio.sleep(pause)
            finally:
                self._set(False)

    async def _listen(self, conn: AsyncConn) -> None:
        self.common = await self._database.fetch_on(conn, calls.common_channel())
        for channel in (self.common, *self._channels):
            await conn.execute(calls.listen(self._database.statements, channel))
        self._heard_at = time.monotonic()
        self._turns.went_well()
        self._set(True)
        while True:
            reading = Reading(conn, partial(self._read, conn.pgconn))
            try:
                await asyncio.wait([reading.ended], timeout=_PROBE_SECONDS)
                if reading.ended.done():
                    await reading.ended
            finally:
                reading.stop()
            if time.monotonic() - self._heard_at >= _PROBE_SECONDS:
                await self._check(conn)

    def _set(self, is_listening: bool) -> None:
        self.is_listening = is_listening
        self._on_change(is_listening)

    def _read(self, pgconn: PGconn) -> None:
        while (call := pgconn.notifies()) is not None:
            self._hear(call.extra.decode(), call.relname.decode())

    def _hear(self, payload: str, channel: str) -> None:
        self._heard_at = time.monotonic()
        if not payload.startswith("probe "):
            self._on_call(payload, channel)

    async def _check(self, conn: AsyncConn) -> None:
        """Check the connection: after a pooler or a fail-over it may receive nothing and report no
        error."""
        await self._database.fetch_on(conn, calls.probe(self.channel, self._probe))
        async for call in conn.notifies(timeout=_PROBE_WAIT, stop_after=1):
            self._hear(call.payload, call.channel)
            return
        raise psycopg.OperationalError("the connection does not receive its own notification")
