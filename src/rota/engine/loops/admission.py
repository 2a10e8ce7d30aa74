"""Admits runs that wait for a limit, as far as the limit has room."""

from __future__ import annotations

import asyncio
import time
from math import inf

from rota.engine.loop import Loop
from rota.postgres.limits import admit
from rota.postgres.sessions.pool import Database

_BATCH = 2000
# Hundreds of runs may end per second, and each may make room: they are handled together.
_LEAST_SECONDS = 0.002
# While the loop is active, enqueues do not call it; at rest they do.
_PERIOD = 0.25
_RESTING_SECONDS = 10.0
# Without limits. The first limit is announced by a call.
_IDLE_SECONDS = 5.0
_IDLE_RESTING_SECONDS = 60.0


class Admission(Loop):
    """Every worker has one, and a lock decides which one works. A run that ends in this worker may
    make room for a waiting run; other workers handle the ends of their own runs."""

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
        """Admit batches, each in its own transaction, until there is nothing to do now."""
        while True:
            admitted = await self._database.fetch(admit(_BATCH, after=self._after))
            self.goes_on()
            self._after, seconds = admitted.last_key, admitted.next_seconds
            if seconds != 0:
                return admitted.is_waiting, inf if seconds is None else seconds
