"""Lets runs that wait for a limit become ready as far as there is room."""

from __future__ import annotations

import asyncio
import time
from math import inf

from rota.runtime.loop import Loop
from rota.store.limits import admit
from rota.store.sessions.pool import Database

_BATCH = 2000
# Ends come by the hundred a second, and each may make room: they are looked at together.
_LEAST_SECONDS = 0.002
# While it works, nobody calls for what is enqueued; at rest one is called.
_PERIOD = 0.25
_RESTING_SECONDS = 10.0
# Where there are no limits. The first one is called out.
_IDLE_SECONDS = 5.0
_IDLE_RESTING_SECONDS = 60.0


class Admission(Loop):
    """Every worker has one, and a lock decides who works. What has ended here may have made room
    for somebody who waits; what ended elsewhere is looked at there."""

    name = "admission"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._after = ""
        self._last = 0.0
        self._has_waiting = False

    def ended(self) -> None:
        """Runs of this worker have ended."""
        if self._has_waiting:
            self.wake()

    async def run_once(self) -> float:
        await asyncio.sleep(max(0.0, self._last + _LEAST_SECONDS - time.monotonic()))
        has_waiting, seconds = await self._admit()
        self._last = time.monotonic()
        self._has_waiting = bool(has_waiting)
        if has_waiting is None:
            return self.pause(_IDLE_SECONDS, _IDLE_RESTING_SECONDS)
        return min(seconds, self.pause(_PERIOD, _RESTING_SECONDS))

    async def _admit(self) -> tuple[bool | None, float]:
        """Batches, each its own commit, until there is nothing more to do at once."""
        while True:
            admitted = await self._database.fetch(admit(_BATCH, after=self._after))
            self.goes_on()
            self._after, seconds = admitted.last_key, admitted.next_seconds
            if seconds != 0:
                return admitted.is_waiting, inf if seconds is None else seconds
