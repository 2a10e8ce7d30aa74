"""Roll-ups of ended attempts, kept in memory and added to the database once a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rota.engine.loop import Loop
from rota.engine.metrics import counters, tenant_rollups
from rota.engine.metrics.counters import Counters, Key
from rota.engine.metrics.tenant_rollups import TenantRollups
from rota.model.histogram import BUCKETS, pack
from rota.model.run import Claim
from rota.postgres.metrics import AttemptRollup, add_counters, add_rollups, add_tenants
from rota.postgres.sessions.pool import Database

_PERIOD = 1.0
# Ticks alone are not worth a write each time.
_TICKS: set[Key] = {("ticks", ())}
_TICKS_SECONDS = 30.0


@dataclass(slots=True)
class Rollup:
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
        # Bucket n counts durations below 2^n microseconds.
        self.buckets[min(int(duration_ms * 1000).bit_length(), BUCKETS - 1)] += 1


class Rollups(Loop):
    """Attempts that ended in this worker. A worker that is killed loses at most its last second."""

    name = "rollups"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._rollups: dict[tuple[str, str, str], Rollup] = {}
        self.counters = Counters()
        self.tenants = TenantRollups()
        self.before_write: Callable[[], None] | None = None
        self.worker = 0
        self._written_at = 0.0

    def ended(self, claim: Claim, outcome: str, duration_ms: float) -> None:
        """Count an attempt of this worker."""
        self.count(claim.job, claim.queue, outcome, duration_ms)
        self.tenants.count(claim, outcome, duration_ms)

    def count(self, job: str, queue: str, outcome: str, duration_ms: float) -> None:
        key = (job, queue, outcome)
        rollup = self._rollups.get(key)
        if rollup is None:
            rollup = self._rollups[key] = Rollup()
        rollup.add(duration_ms)

    async def run_once(self) -> float:
        rollups, self._rollups = self._rollups, {}
        if rollups:
            try:
                await self._write(rollups)
            except BaseException:
                self._merge_back(rollups)
                raise
        await self._write_tenants()
        await self._write_counters()
        return _PERIOD

    async def _write_tenants(self) -> None:
        taken = self.tenants.take()
        if not taken:
            return
        try:
            query = add_tenants(tenant_rollups.changes(taken))
            await self._database.fetch(query, is_hurried=False)
        except BaseException:
            self.tenants.put_back(taken)
            raise

    async def _write_counters(self) -> None:
        if self.before_write is not None:
            self.before_write()
        taken = self.counters.take()
        if taken.keys() <= _TICKS and time.monotonic() - self._written_at < _TICKS_SECONDS:
            self.counters.put_back(taken)
            return
        if not taken:
            return
        self._written_at = time.monotonic()
        try:
            query = add_counters(counters.changes(taken))
            await self._database.fetch(query, is_hurried=False)
        except BaseException:
            self.counters.put_back(taken)
            raise

    async def _write(self, rollups: dict[tuple[str, str, str], Rollup]) -> None:
        written = [
            AttemptRollup(
                *key, rollup.attempts, rollup.duration_ms, rollup.longest_ms, pack(rollup.buckets)
            )
            for key, rollup in rollups.items()
        ]
        query = add_rollups(self.worker, written)
        await self._database.fetch(query, is_hurried=False)

    def _merge_back(self, rollups: dict[tuple[str, str, str], Rollup]) -> None:
        for key, rollup in rollups.items():
            later = self._rollups.get(key)
            if later is not None:
                rollup.attempts += later.attempts
                rollup.duration_ms += later.duration_ms
                rollup.longest_ms = max(rollup.longest_ms, later.longest_ms)
                rollup.buckets = [a + b for a, b in zip(rollup.buckets, later.buckets, strict=True)]
            self._rollups[key] = rollup
