"""Writes ends that were kept, because somebody's open transaction held what they change."""

from __future__ import annotations

from collections.abc import Callable

from rota.runtime.loop import Loop
from rota.store.runs.claimed import settle_kept_ends
from rota.store.sessions.pool import Database

_AT_ONCE = 50  # each is a subtransaction
_AGAIN_SECONDS = 0.5
_PERIOD = 5.0
# Upkeep calls it while any run is open, and each end that was kept is of an open run.
_RESTING_SECONDS = 300.0


class KeptEnds(Loop):
    """Asked by a worker that has kept one; now and then by itself, for those of workers that are
    gone."""

    name = "kept ends"

    def __init__(self, database: Database, *, on_written: Callable[[], None]) -> None:
        super().__init__()
        self._database = database
        self._on_written = on_written
        self._left = 0

    async def run_once(self) -> float:
        before = self._left
        self._left = await self._database.fetch(settle_kept_ends(_AT_ONCE), is_hurried=False)
        if before:
            self._on_written()
        return _AGAIN_SECONDS if self._left else self.pause(_PERIOD, _RESTING_SECONDS)
