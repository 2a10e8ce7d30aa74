"""Performs bulk actions, batch by batch."""

from __future__ import annotations

from rota.engine.loop import Loop
from rota.errors import RotaError
from rota.postgres.runs import bulk_work
from rota.postgres.sessions.pool import Database

_PERIOD = 5.0
_RESTING_SECONDS = 60.0


class BulkActionLoop(Loop):
    """Every worker has one, and a lock on the action's row decides which one works. A worker that
    has performed a batch returns when the next one is due; the others check now and then, in case
    that worker is gone."""

    name = "bulk actions"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    async def run_once(self) -> float:
        """Perform the batches that are due, one after another."""
        has_worked = False
        while await self._work():
            has_worked = True
            self.goes_on()
        if not has_worked:
            return self.pause(_PERIOD, _RESTING_SECONDS)
        seconds = await self._database.run(bulk_work.due())
        return _PERIOD if seconds is None else min(max(seconds, 0.0), _PERIOD)

    async def _work(self) -> bool:
        turn = bulk_work.BulkTurn()
        try:
            return await self._database.run(bulk_work.work(turn))
        except RotaError as error:
            if turn.id is None:
                raise
            # Stored for operators to see, while other actions continue.
            self._log.warning("a bulk action failed, retrying", action=turn.id, error=error)
            await self._database.run(bulk_work.note_fault(turn.id, str(error)))
            return True
