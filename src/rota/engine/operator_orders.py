"""Carries out an operator's instructions to a worker: drain, drain and stop, or resume."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rota.engine.registration import Registration
from rota.engine.tasks import end_task
from rota.engine.worker_context import WorkerContext
from rota.postgres.workers.orders import Order


class OperatorOrders:
    """`stop` stops the worker."""

    def __init__(
        self, parts: WorkerContext, registration: Registration, stop: Callable[[], Awaitable[None]]
    ) -> None:
        self._parts = parts
        self._registration = registration
        self._stop = stop
        self._task: asyncio.Task[None] | None = None

    async def obey(self, order: Order) -> None:
        parts, identity = self._parts, self._registration.identity
        if not parts.is_running:
            return
        if identity is not None:
            identity.set_draining(order.is_draining)
        if parts.parent is not None:
            parts.parent.set_willing(not order.is_draining)
        await parts.background.shared_loops.let_tick(not order.is_draining)
        # Also if only the manner has changed: a worker that waits may be told to hurry.
        task, self._task = self._task, None
        await end_task(task)
        if order.is_to_stop:
            retiring = self._retire(at_once=order.is_to_hurry)
            self._task = asyncio.create_task(retiring, name="rota retirement")

    async def _retire(self, *, at_once: bool) -> None:
        """Stop once all running attempts have ended, however long that takes. With `at_once` stop
        as after a signal: attempts that outlast the shutdown time are interrupted, and their runs
        requeued."""
        identity = self._registration.identity
        if identity is not None and not at_once:
            await identity.slots.drained()
        if not (await self._parts.background.drain.read()).is_to_stop:
            return  # revoked a moment ago; the drain loop passes on the new instruction
        if self._parts.parent is not None:
            self._parts.parent.retire()
        await self._stop()
