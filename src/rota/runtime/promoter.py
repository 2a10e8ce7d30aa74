"""Moves runs whose time has come into their queues."""

from __future__ import annotations

from rota.runtime.loop import Loop
from rota.store.pool import Database

_BATCH = 1000


class Promoter(Loop):
    """Sleeps until the next run is due, at most for the poll interval."""

    name = "promoter"

    def __init__(self, database: Database, *, poll_seconds: float) -> None:
        super().__init__()
        self._database = database
        self._poll = poll_seconds
        self._sql = database.statements.get("runs/promote")

    async def run_once(self) -> float:
        # Each batch is its own commit, so that a million due at once do not come in one.
        while True:
            async with self._database.connection() as conn:
                cursor = await conn.execute(self._sql, {"limit": _BATCH})
                promoted, next_due = await cursor.fetchone() or (0, None)
            if promoted < _BATCH:
                break
        return self._poll if next_due is None else min(max(next_due, 0.0), self._poll)
