"""Instructions of an operator to this worker: drain, drain and stop, or resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from psycopg import errors

from rota.engine.loop import Loop
from rota.postgres.queries import Query
from rota.postgres.sessions.pool import Database
from rota.postgres.workers import orders
from rota.postgres.workers.orders import Order

T = TypeVar("T")
_RESTING_SECONDS = 60.0


class DrainLoop(Loop):
    """Reads the instruction as often as the heartbeat is sent, and at once when called; rarely at
    rest.

    `on_order` is awaited whenever the instruction differs from the one carried out.
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
        """Serve a new worker id; the instruction to the former one applies to it too."""
        former, self._worker = self._worker, worker
        if self.order.is_draining:
            await self._fetch(orders.keep_draining(worker, former))

    async def read(self) -> Order:
        """Return the current instruction, whether or not it was carried out already."""
        return await self._fetch(orders.read_order(self._worker))

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
            # Later, if another transaction holds the worker's row.
            with suppress(errors.LockNotAvailable):
                await self._fetch(orders.saw_drain(self._worker))
                self._owes_answer = False
        return self.pause(self._pause, _RESTING_SECONDS)

    async def _fetch(self, query: Query[T]) -> T:
        return await self._database.fetch(query, is_hurried=False)
