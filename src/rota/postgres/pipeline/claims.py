"""The request of a claim, and a prepared claim that only has to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from rota.model.run import Claim
from rota.postgres.errors import translate_foreign
from rota.postgres.pipeline.prepared import Early, Pipeline, PreparedCall, ask_again
from rota.postgres.sessions.connection import AsyncConn


class ClaimRequest(NamedTuple):
    """The parameters of a claim; `limit` 0 only marks `start_batch` as started. The hints are
    positions of the runs of one tenant, `lane`."""

    limit: int
    queues: Sequence[str]
    quota: int
    hints: list[int]
    batch: int | None
    start_batch: int | None
    lane: str = ""


class ConnectionTurn(asyncio.Lock):
    """The lock of one connection, which a callback can also take if it is free."""

    def take(self) -> bool:
        if self.locked():
            return False
        acquiring = self.acquire()
        try:
            acquiring.send(None)
        except StopIteration:
            return True
        acquiring.close()  # others have waited longer
        return False


class ReadyClaim:
    """A claim encoded in advance. On an idle worker, the work that remains when a call arrives is
    part of a run's latency."""

    def __init__(
        self,
        request: ClaimRequest,
        conn: AsyncConn,
        turn: ConnectionTurn,
        question: PreparedCall[Claim],
    ) -> None:
        self.request = request
        self._conn = conn
        self._turn = turn
        self._question = question
        self._pipeline: Pipeline

    def send(self, early: Early[Claim]) -> bool:
        """Send the claim now, from a callback. False: the connection is in use or closed, and
        nothing was sent."""
        if self._conn.closed or not self._turn.take():
            return False
        try:
            self._pipeline = Pipeline(self._conn, [self._question], early)
        except (psycopg.Error, OSError):
            # The next user of the connection gets the error.
            self._turn.release()
            return False
        return True

    async def receive(self) -> list[Claim]:
        """Return the claimed runs. After `send`, either this or `call_off` must be called."""
        try:
            with translate_foreign():
                try:
                    (claims,) = await self._pipeline.wait()
                except psycopg.Error as error:
                    (claims,) = await ask_again(self._conn, [self._question], error)
                return claims
        finally:
            self._turn.release()

    async def call_off(self) -> None:
        try:
            await self._pipeline.call_off()
        finally:
            self._turn.release()
