"""Promotes scheduled runs that are due."""

from __future__ import annotations

import random
import time
from math import inf

from rota.engine.loop import Loop
from rota.postgres.runs.moves import promote
from rota.postgres.sessions.pool import Database

_BATCH = 1000
# A promoter that came too late this often in a row waits this much longer than until the next run
# is due. Coming late once may be chance: a run cancelled before its time, or a look a moment too
# early.
_BEHIND_SECONDS = (0.01, 0.03)
_MISSES = 2
# A run that is due within a minute is announced by a call while a worker is idle.
_RESTING_SECONDS = 12.0


class Promoter(Loop):
    """Sleeps until the next run is due, at most for the poll interval, or longer at rest. Every
    worker has one, and all wait for the same time: a promoter that finds that another was faster
    stays slightly behind, and takes over if none promotes."""

    name = "promoter"

    def __init__(self, database: Database, *, poll_seconds: float) -> None:
        super().__init__()
        self._database = database
        self._poll = poll_seconds
        self._misses = 0
        self._due = inf

    async def run_once(self) -> float:
        was_due = time.monotonic() >= self._due
        has_promoted, next_due = await self._promote()
        if has_promoted:
            self._misses = 0
        elif was_due or next_due <= 0:
            self._misses += 1
        self._due = time.monotonic() + next_due
        behind = random.uniform(*_BEHIND_SECONDS) if self._misses >= _MISSES else 0.0
        return min(max(next_due, 0.0) + behind, self.pause(self._poll, _RESTING_SECONDS))

    async def _promote(self) -> tuple[bool, float]:
        """Return whether runs were promoted, and the seconds until the next one is due. Each batch
        is its own transaction, so that a million due runs are not one commit."""
        has_promoted = False
        while True:
            promoted = await self._database.fetch(promote(_BATCH))
            self.goes_on()
            has_promoted = has_promoted or promoted.runs > 0
            if promoted.runs < _BATCH:
                return has_promoted, promoted.next_seconds
