"""Holds the runs of paused tenants, and maintains the counts that quotas and queue caps use."""

from __future__ import annotations

from rota.engine.loop import Loop
from rota.postgres.sessions.pool import Database
from rota.postgres.tenants.tenants import tend

_BATCH = 1000
_PERIOD = 5.0
_RESTING_SECONDS = 60.0


class TenantLoop(Loop):
    """Every worker has one, and a lock decides which one works. While a tenant is paused or has a
    quota, or a queue has a cap, it runs every second; otherwise now and then, in case the call that
    announced the first one was lost."""

    name = "tenants"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    async def run_once(self) -> float:
        """Work in batches, each its own transaction, even for a million runs."""
        while True:
            tended = await self._database.fetch(tend(_BATCH), is_hurried=False)
            self.goes_on()
            if tended.moved < _BATCH:
                break
        seconds = tended.next_seconds
        return self.pause(_PERIOD, _RESTING_SECONDS) if seconds is None else seconds
