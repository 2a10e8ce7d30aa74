"""Sleep, for databases that are billed by activity: an idle worker closes its connections, and
sends no query until something is due or it is woken (docs/decisions/0035-sleep.md)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Protocol

from rota.engine.tasks import end_task
from rota.telemetry.logger import get_logger

# If something is due sooner, sleeping is not worthwhile: signing off and on costs more than
# waiting.
_SOON_SECONDS = 30.0


class Sleepy(Protocol):
    """The part of a worker that the sleeper uses."""

    @property
    def busy_at(self) -> float:
        """Return when the worker was last busy, by the monotonic clock."""

    def may_sleep(self, is_drowsy: bool) -> bool:
        """Return whether the worker may sleep. `is_drowsy`: it has been idle for long enough."""

    async def quiet_seconds(self) -> float:
        """Return for how long nothing will be due, as far as the database shows."""

    async def lie_down(self) -> float | None:
        """Sign off and release everything; return for how many seconds, or None if the worker got
        something to do."""

    async def get_up(self) -> None:
        """Register again, and continue."""


class Sleeper:
    """`after`: seconds without work, None for a worker that never sleeps; `most`: the longest
    sleep."""

    def __init__(self, worker: Sleepy, *, after: float | None, most: float) -> None:
        self._worker = worker
        self._after = after
        self._most = most
        self._log = get_logger("worker")
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._awake_since = time.monotonic()
        self.is_asleep = False

    def look(self) -> None:
        """Called regularly while the worker is awake."""
        if self._after is None or self._task is not None:
            return
        idle = time.monotonic() - max(self._worker.busy_at, self._awake_since)
        if self._worker.may_sleep(idle >= self._after):
            self._task = asyncio.create_task(self._sleep(), name="rota sleep")

    def wake(self) -> None:
        self._woken.set()

    async def stop(self) -> None:
        """Stop for good, without waking the worker."""
        self._after = None
        await end_task(self._task)

    async def _sleep(self) -> None:
        try:
            self._woken.clear()
            if await self._worker.quiet_seconds() < min(self._after or 0.0, _SOON_SECONDS):
                return
            seconds = await self._worker.lie_down()
            if seconds is not None:
                await self._rest(seconds)
                await self._worker.get_up()
        except Exception as error:
            # The worker stays awake; the loops log that the database is unavailable.
            self._log.warning("could not go to sleep", error=error)
        finally:
            self._awake_since = time.monotonic()
            self._task = None

    async def _rest(self, seconds: float) -> None:
        began, self.is_asleep = time.monotonic(), True
        self._log.info("asleep", seconds=round(seconds), at_most=round(self._most))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
        finally:
            self.is_asleep = False
        slept = round(time.monotonic() - began, 1)
        self._log.info("awake", slept=slept, was_woken=self._woken.is_set())
