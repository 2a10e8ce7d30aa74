"""Writes kept ends: ends that could not be written because another open transaction held the
rows."""

from __future__ import annotations

from collections.abc import Callable

from rota.engine.loop import Loop
from rota.postgres.runs.claimed import settle_kept_ends
from rota.postgres.sessions.pool import Database

_AT_ONCE = 50  # each end is a subtransaction
_AGAIN_SECONDS = 0.5
_PERIOD = 5.0
# Upkeep wakes this loop while any run is open, and every kept end belongs to an open run.
_RESTING_SECONDS = 300.0


class KeptEnds(Loop):
    """Woken by a worker that has kept an end; runs now and then by itself, for ends of workers that
    are gone."""

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
