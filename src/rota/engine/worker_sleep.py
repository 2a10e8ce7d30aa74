"""How a worker goes to sleep and wakes up; sleeping.py decides when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from rota.engine.registration import Registration
from rota.engine.worker_context import WorkerContext
from rota.errors import RotaError
from rota.postgres.workers import life

_SAY_SECONDS = 5.0


class WorkerSleep:
    """`wake` may be called from any thread."""

    def __init__(
        self, parts: WorkerContext, registration: Registration, wake: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._registration = registration
        self._wake = wake
        self._slept_as: int | None = None

    @property
    def busy_at(self) -> float:
        identity = self._registration.identity
        return time.monotonic() if identity is None else identity.busy_at

    def may_sleep(self, is_drowsy: bool) -> bool:
        parent = self._parts.parent
        return is_drowsy if parent is None else parent.may_sleep(is_drowsy)

    async def quiet_seconds(self) -> float:
        identity = self._registration.identity
        if identity is None:
            return 0.0
        most = self._parts.config.worker.sleep_at_most_seconds
        ticking = self._parts.background.shared_loops.is_ticking
        query = life.quiet_seconds(identity.worker, most=most, ticking=ticking)
        return await identity.feed.fetch(query)

    async def lie_down(self) -> float | None:
        parts, identity = self._parts, self._registration.identity
        if identity is None or not identity.hold_still():
            return None
        is_ticking, self._registration.identity = parts.background.shared_loops.is_ticking, None
        await parts.background.shared_loops.stop()
        await parts.definitions.stop()
        await parts.listener.stop()
        await parts.background.stop()
        seconds = await identity.fall_asleep(
            most=parts.config.worker.sleep_at_most_seconds, ticking=is_ticking
        )
        self._slept_as = identity.worker
        parts.database.rest()
        parts.database.on_use = self._wake
        return seconds

    async def get_up(self) -> None:
        self._parts.database.on_use = None
        await self._registration.take_again()
        await self._say_awake()
        if self._parts.is_running:
            await self._parts.start_loops()

    async def end(self) -> None:
        """End the sleep, because the worker stops."""
        self._parts.database.on_use = None
        await self._say_awake()

    async def _say_awake(self) -> None:
        """Record that the former worker id sleeps no longer."""
        former, self._slept_as = self._slept_as, None
        if former is None:
            return
        with suppress(psycopg.Error, RotaError, OSError, TimeoutError):
            async with asyncio.timeout(_SAY_SECONDS):
                await self._parts.database.fetch(life.wake_up(former))
