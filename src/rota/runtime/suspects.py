"""Looks for runs that were lost once and wait to be claimed alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.runtime.loop import Loop
from rota.store.pool import Database


class Suspects(Loop):
    name = "suspects"

    def __init__(
        self,
        database: Database,
        *,
        jobs: Callable[[], Sequence[str]],
        queues: Sequence[str],
        on_found: Callable[[], None],
        poll_seconds: float,
    ) -> None:
        super().__init__()
        self._database = database
        self._jobs = jobs
        self._queues = list(queues)
        self._on_found = on_found
        self._poll = poll_seconds

    async def run_once(self) -> float:
        sql = self._database.statements.get("runs/has_suspects")
        params = {"jobs": list(self._jobs()), "queues": self._queues}
        async with self._database.connection() as conn:
            row = await (await conn.execute(sql, params)).fetchone()
        if row and row[0]:
            self._on_found()
        return self._poll
