"""Counts of ended attempts, kept in memory and added to the database once a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rota.model.histogram import BUCKETS, pack
from rota.model.run import Claim
from rota.runtime.loop import Loop
from rota.runtime.metrics.counts import Counts, Key, columns
from rota.runtime.metrics.tenant_tally import TenantTally
from rota.runtime.metrics.tenant_tally import columns as tenant_columns
from rota.store.sessions.pool import Database

_PERIOD = 1.0
# That a scheduler ticks is no reason to write every time.
_TICKS: set[Key] = {("ticks", ())}
_TICKS_SECONDS = 30.0


@dataclass(slots=True)
class Tally:
    """Attempts of one job in one queue with one outcome, since the last write."""

    attempts: int = 0
    duration_ms: float = 0.0
    longest_ms: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def add(self, duration_ms: float) -> None:
        self.attempts += 1
        self.duration_ms += duration_ms
        if duration_ms > self.longest_ms:
            self.longest_ms = duration_ms
        # Bucket n holds what lasted less than 2^n microseconds.
        self.buckets[min(int(duration_ms * 1000).bit_length(), BUCKETS - 1)] += 1


class Rollups(Loop):
    """What this worker has seen end. A worker that is killed loses at most its last second."""

    name = "rollups"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._tallies: dict[tuple[str, str, str], Tally] = {}
        self.counts = Counts()
        self.tenants = TenantTally()
        self.before_write: Callable[[], None] | None = None
        self.worker = 0
        self._written_at = 0.0

    def ended(self, claim: Claim, outcome: str, duration_ms: float) -> None:
        """An attempt of this worker."""
        self.count(claim.job, claim.queue, outcome, duration_ms)
        self.tenants.count(claim, outcome, duration_ms)

    def count(self, job: str, queue: str, outcome: str, duration_ms: float) -> None:
        key = (job, queue, outcome)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
        tally.add(duration_ms)

    async def run_once(self) -> float:
        tallies, self._tallies = self._tallies, {}
        if tallies:
            try:
                await self._write(tallies)
            except BaseException:
                self._merge_back(tallies)
                raise
        await self._write_tenants()
        await self._write_counts()
        return _PERIOD

    async def _write_tenants(self) -> None:
        sums = self.tenants.take()
        if not sums:
            return
        try:
            async with self._database.connection(is_hurried=False) as conn:
                sql = self._database.statements.get("tenants/tally")
                await conn.execute(sql, tenant_columns(sums))
        except BaseException:
            self.tenants.put_back(sums)
            raise

    async def _write_counts(self) -> None:
        if self.before_write is not None:
            self.before_write()
        sums = self.counts.take()
        if sums.keys() <= _TICKS and time.monotonic() - self._written_at < _TICKS_SECONDS:
            self.counts.put_back(sums)
            return
        if not sums:
            return
        self._written_at = time.monotonic()
        try:
            async with self._database.connection(is_hurried=False) as conn:
                await conn.execute(self._database.statements.get("counts/add"), columns(sums))
        except BaseException:
            self.counts.put_back(sums)
            raise

    async def _write(self, tallies: dict[tuple[str, str, str], Tally]) -> None:
        values = list(tallies.values())
        params = {
            "worker": self.worker,
            "jobs": [job for job, _, _ in tallies],
            "queues": [queue for _, queue, _ in tallies],
            "outcomes": [outcome for _, _, outcome in tallies],
            "attempts": [tally.attempts for tally in values],
            "durations": [tally.duration_ms for tally in values],
            "longests": [tally.longest_ms for tally in values],
            "histograms": [pack(tally.buckets) for tally in values],
        }
        async with self._database.connection(is_hurried=False) as conn:
            await conn.execute(self._database.statements.get("runs/tally"), params)

    def _merge_back(self, tallies: dict[tuple[str, str, str], Tally]) -> None:
        for key, tally in tallies.items():
            later = self._tallies.get(key)
            if later is not None:
                tally.attempts += later.attempts
                tally.duration_ms += later.duration_ms
                tally.longest_ms = max(tally.longest_ms, later.longest_ms)
                tally.buckets = [a + b for a, b in zip(tally.buckets, later.buckets, strict=True)]
            self._tallies[key] = tally
