"""The work that is needed once, not in every process of a machine: promotion, ticks, rescue,
upkeep.

A worker without a supervisor always does it, because any number of workers may. Among the workers
of one supervisor, one does it for all; another takes over when that one ends or is blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from rota.engine.loop import Loop


class SharedLoops:
    """`named` maps words to the loops that can be woken by them. `scheduler` ticks, and also stops
    while the worker drains; None if this worker never ticks."""

    def __init__(
        self, loops: Sequence[Loop], named: Mapping[str, Loop], scheduler: Loop | None
    ) -> None:
        self._loops = list(loops)
        self._named = named
        self._scheduler = scheduler
        self._running: set[Loop] = set()
        self._is_started = False
        self._may_tick = True
        self._is_on = True
        self._turn = asyncio.Lock()
        self._changing: asyncio.Task[None] | None = None
        # Forwards a word to the worker that runs these loops, if this one does not.
        self.tell_other: Callable[[str], None] = lambda _: None

    @property
    def is_ticking(self) -> bool:
        """Return whether this worker, or the one that runs the loops for it, ticks."""
        return self._scheduler is not None and self._may_tick

    def ask(self, word: str) -> None:
        """Wake a loop at once, in the worker that runs it."""
        if self._is_on:
            self._named[word].wake()
        else:
            self.tell_other(word)

    def called(self, word: str) -> None:
        """Wake a loop after a call that all workers receive."""
        if word in self._named:
            self._named[word].wake()

    def take(self, is_on: bool) -> None:
        """Set whether this worker runs the loops. Returns at once, because a loop may take a while
        to stop."""
        if is_on != self._is_on:
            self._is_on = is_on
            self._changing = asyncio.get_running_loop().create_task(self._apply())

    async def start(self) -> None:
        self._is_started = True
        await self._apply()

    async def stop(self) -> None:
        self._is_started = False
        await self._apply()

    async def let_tick(self, may_tick: bool) -> None:
        self._may_tick = may_tick
        await self._apply()

    async def _apply(self) -> None:
        async with self._turn:
            wanted = self._wanted()
            for loop in self._running - wanted:
                await loop.stop()
            for loop in wanted - self._running:
                loop.start()
            self._running = wanted

    def _wanted(self) -> set[Loop]:
        if not (self._is_started and self._is_on):
            return set()
        scheduler = {self._scheduler} if self._scheduler and self._may_tick else set()
        return {*self._loops, *scheduler}
