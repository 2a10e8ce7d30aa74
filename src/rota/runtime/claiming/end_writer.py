"""A second connection for ends, while claims keep the first one busy.

In a drain the server works as long on the ends of a batch as on the next claim, and one connection
is one of its processes: with two of them both go on at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rota.runtime.claiming.end_buffer import EndBuffer
from rota.runtime.lease.health import Health
from rota.runtime.tasks import end_task
from rota.store.pipeline.feed import Feed
from rota.telemetry.logger import get_logger

# How long the first connection does everything again after an error of the second one, and how
# long the second one stays open without work.
_ASIDE_SECONDS = 5.0
_IDLE_SECONDS = 30.0


class EndWriter:
    """Writes what has ended whenever it is called. After an error it steps aside: whoever has the
    first connection sees to the ends, and to what the error means."""

    def __init__(
        self,
        ends: EndBuffer,
        feed: Feed,
        *,
        on_later: Callable[[], None],
        on_turn: Callable[[], None],
        health: Health,
    ) -> None:
        self._turns = health.of("end writer")
        self._ends = ends
        self._feed = feed
        self._on_later = on_later
        self._on_turn = on_turn
        self._aside_until = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._log = get_logger("worker")

    @property
    def is_willing(self) -> bool:
        return self._task is not None and time.monotonic() >= self._aside_until

    @property
    def is_resting(self) -> bool:
        return self._waiter is not None

    def call(self) -> None:
        """There are ends."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="rota end writer")

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_task(task)
        self._turns.forget()
        await self._feed.end()

    async def _run(self) -> None:
        while True:
            await self._rest()
            try:
                while self._ends and self.is_willing:
                    self._turns.begin()
                    _, has_later = await self._ends.exchange(self._feed, None)
                    if has_later:
                        self._on_later()
                    self._turns.went_well()
                    self._on_turn()
            except Exception as error:
                if self._turns.failed(error):
                    text = "using one connection for claims and results for now"
                    self._log.warning(text, error=error)
                # Its work is the feeder's now, and so is the blame.
                self._turns.forget()
                self._aside_until = time.monotonic() + _ASIDE_SECONDS
                await self._feed.close()
                self._on_turn()

    async def _rest(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            done, _ = await asyncio.wait([waiter], timeout=_IDLE_SECONDS)
            if not done:
                await self._feed.close()
                await waiter
        finally:
            self._waiter = None
