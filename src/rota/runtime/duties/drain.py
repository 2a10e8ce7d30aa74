"""What an operator told this worker: to drain, to drain and stop, or to go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from psycopg import errors

from rota.runtime.loop import Loop
from rota.store.sessions.pool import Database

_RESTING_SECONDS = 60.0


class Order(NamedTuple):
    is_draining: bool = False
    is_to_stop: bool = False
    is_to_hurry: bool = False


class Drain(Loop):
    """Looks as often as the worker's heart beats, and at once when it is called; seldom at rest.

    `on_order` is awaited whenever what was told differs from what was obeyed.
    """

    name = "drain"

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float,
        on_order: Callable[[Order], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._database = database
        self._pause = lease_seconds / 3
        self._on_order = on_order
        self._worker = 0
        self.order = Order()
        self._owes_answer = False

    async def serve(self, worker: int) -> None:
        """A new identity: what the one before was told holds for it, too."""
        former, self._worker = self._worker, worker
        if self.order.is_draining:
            await self._ask("workers/keep_draining", former=former)

    async def read(self) -> Order:
        """What it is told now, whether or not it was obeyed already."""
        found = await self._ask("workers/orders")
        return Order(*found[0]) if found else Order()

    async def run_once(self) -> float:
        order = await self.read()
        if order != self.order:
            self._log.info(
                "instructed by an operator",
                drain=order.is_draining,
                stop=order.is_to_stop,
                at_once=order.is_to_hurry,
            )
            await self._on_order(order)
            self.order = order
            self._owes_answer = order.is_draining
        if self._owes_answer:
            with suppress(errors.LockNotAvailable):  # somebody holds the worker's row: later
                await self._ask("workers/saw_drain")
                self._owes_answer = False
        return self.pause(self._pause, _RESTING_SECONDS)

    async def _ask(self, statement: str, **params: int) -> list[tuple[bool, bool, bool]]:
        async with self._database.connection(is_hurried=False) as conn:
            sql = self._database.statements.get(statement)
            cursor = await conn.execute(sql, {"worker": self._worker, **params})
            return await cursor.fetchall() if cursor.description else []
