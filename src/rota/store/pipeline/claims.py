"""What a claim asks for, and a claim that has only to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from rota.model.run import Claim
from rota.store.errors import translate_foreign
from rota.store.pipeline.prepared import Early, Pipeline, Question, ask_again
from rota.store.sessions.connection import AsyncConn


class ClaimRequest(NamedTuple):
    """What a claim asks for; `limit` 0 only marks `start_batch` as started. The hints are places of
    the runs of one tenant, `lane`."""

    limit: int
    queues: Sequence[str]
    quota: int
    hints: list[int]
    batch: int | None
    start_batch: int | None
    lane: str = ""


class ConnectionTurn(asyncio.Lock):
    """Of one connection: a lock that a callback can take too, when it is free."""

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
    """A claim made ready before anybody waits for it. On a worker that rests, what is left to do
    when a call comes is part of a run's latency."""

    def __init__(
        self,
        request: ClaimRequest,
        conn: AsyncConn,
        turn: ConnectionTurn,
        question: Question[Claim],
    ) -> None:
        self.request = request
        self._conn = conn
        self._turn = turn
        self._question = question
        self._pipeline: Pipeline

    def send(self, early: Early[Claim]) -> bool:
        """Now, from a callback. False: the connection is not free, or gone; nothing was sent."""
        if self._conn.closed or not self._turn.take():
            return False
        try:
            self._pipeline = Pipeline(self._conn, [self._question], early)
        except (psycopg.Error, OSError):
            # Whoever uses the connection next is told.
            self._turn.release()
            return False
        return True

    async def receive(self) -> list[Claim]:
        """What it brought. Must be called, or `call_off`, when it was sent."""
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
