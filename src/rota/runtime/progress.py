"""What running attempts say about how far they are; only the last word of each is written."""

from __future__ import annotations

import threading

from rota.runtime.log_lines import clean
from rota.runtime.loop import Loop
from rota.store.pool import Database

_PERIOD = 1.0


class ProgressBoard(Loop):
    name = "progress"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._lock = threading.Lock()
        self._latest: dict[tuple[int, int], tuple[float, str | None]] = {}
        self.worker = 0

    def report(self, run_id: int, attempt: int, fraction: float, message: str | None) -> None:
        """From any thread; costs the handler nothing but this."""
        with self._lock:
            words = None if message is None else clean(str(message))
            self._latest[run_id, attempt] = (fraction, words)

    async def run_once(self) -> float:
        with self._lock:
            latest, self._latest = self._latest, {}
        if latest:
            async with self._database.connection() as conn:
                params = {
                    "worker": self.worker,
                    "ids": [run_id for run_id, _ in latest],
                    "attempts": [attempt for _, attempt in latest],
                    "fractions": [fraction for fraction, _ in latest.values()],
                    "messages": [message for _, message in latest.values()],
                }
                await conn.execute(self._database.statements.get("runs/progress"), params)
        return _PERIOD
