"""Maintenance that must not depend on a schedule: partitions, parking, sweeping, counters."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import psycopg

from rota.engine.loop import Loop
from rota.postgres import upkeep
from rota.postgres.queries import Query
from rota.postgres.sessions.outage import is_away, is_unwritable
from rota.postgres.sessions.pool import Database

T = TypeVar("T")
_PERIOD = 5.0
_RESTING_SECONDS = 20.0
_ALL_SECONDS = 180.0
_BATCH = 1000
# Each batch reads the backlog from its front: use few large ones.
_PARK_BATCH = 20_000
_FOLD_MINUTES = 10
_PARTITIONS_SECONDS = 3600.0
_MARK_SECONDS = 300.0
_RESPONSES_SECONDS = 300.0
# There is one sample a minute: the first worker after the minute begins takes it.
_SAMPLE_SECONDS = 10.0
_ERRORS_SECONDS = 3600.0
_LIMITS_SECONDS = 60.0
# There are thousands of failures when a dependency is down.
_FOLD_ERRORS = 50_000


class Upkeep(Loop):
    name = "upkeep"
    is_patient = True
    long_seconds = 600.0  # on large tables

    def __init__(
        self, database: Database, *, unknown_job_seconds: float, refused_payload_seconds: float
    ) -> None:
        super().__init__()
        self._database = database
        self._unknown_job_seconds = unknown_job_seconds
        self._refused_payload_seconds = refused_payload_seconds
        self._done: dict[str, float] = {}
        # A stopping worker does not count among those that know its jobs: runs that wait until it
        # is restarted would be parked, and freed afterwards.
        self.is_leaving = False
        self._next_park = 0.0
        self._is_at_rest = False
        self._told: dict[str, str] = {}
        self.on_open: Callable[[], None] | None = None  # wakes other loops that may have work

    def wake(self) -> None:
        self._is_at_rest = False
        super().wake()

    async def run_once(self) -> float:
        """Perform one duty after another. A duty that fails does not prevent the others."""
        if await self._may_rest():
            if self._is_due("samples", 6 * _SAMPLE_SECONDS):
                await self._call(upkeep.take_sample())
            return self.pause(_PERIOD, _RESTING_SECONDS)
        if self.on_open is not None and not self._is_at_rest:
            self.on_open()
        for name, duty in self._tasks():
            try:
                await duty
                self._told.pop(name, None)
            except psycopg.Error as error:
                if is_away(error) or is_unwritable(error):
                    raise  # the database is unavailable or refuses writes: every duty would fail
                self._tell(name, error)
                self.fault = error
        return _PERIOD

    async def _may_rest(self) -> bool:
        """Return whether nothing is open, as at the last check: then one full pass in three minutes
        is enough."""
        was_at_rest = self._is_at_rest
        if self.pace is None or not self.pace.is_resting:
            self._is_at_rest = False
        else:
            self._is_at_rest = await self._call(upkeep.is_at_rest())
            if was_at_rest and self._is_at_rest:
                return not self._is_due("all", self.pace.stretched(_ALL_SECONDS))
        self._done["all"] = time.monotonic()
        return False

    def _tasks(self) -> Iterator[tuple[str, Awaitable[object]]]:
        if self._is_due("partitions", _PARTITIONS_SECONDS):
            yield "partitions", self._call(upkeep.make_partitions())
        if self._is_due("mark", _MARK_SECONDS):
            yield "marks", self._call(upkeep.mark_id())
        yield "expiry", self._repeat(upkeep.expire)
        yield "freeing", self._repeat(upkeep.free)
        yield "freeing refused payloads", self._repeat(upkeep.free_refused)
        # Before parking, because it finds what could be parked.
        yield "depths", self._call(upkeep.count_depths(_PERIOD / 2))
        if self._is_due("samples", _SAMPLE_SECONDS):
            yield "samples", self._call(upkeep.take_sample())
        if not self.is_leaving:
            yield "parking", self._park()
            yield "holding refused payloads", self._repeat(upkeep.hold_refused)
        unknown = upkeep.fail_unknown(_BATCH, after_seconds=self._unknown_job_seconds)
        yield "unknown jobs", self._call(unknown)
        refused = upkeep.fail_refused(_BATCH, after_seconds=self._refused_payload_seconds)
        yield "refused payloads", self._call(refused)
        yield "sweeping", self._repeat(upkeep.sweep)
        # In case no worker ticks.
        yield "ends of schedules", self._call(upkeep.settle_ends(_BATCH))
        if self._is_due("responses", _RESPONSES_SECONDS):
            yield "responses", self._repeat(upkeep.sweep_responses)
        if self._is_due("limits", _LIMITS_SECONDS):
            yield "limits", self._call(upkeep.mend_limits())
        yield "roll-ups", self._call(upkeep.fold_rollups(_FOLD_MINUTES))
        yield "counters", self._call(upkeep.fold_counters())
        yield "errors", self._repeat(upkeep.fold_errors, _FOLD_ERRORS)
        if self._is_due("errors", _ERRORS_SECONDS):
            yield "old errors", self._call(upkeep.tidy_errors())

    def _tell(self, duty: str, error: psycopg.Error) -> None:
        """Log an error once, until it changes."""
        message = error.diag.message_primary or str(error)
        if self._told.get(duty) != message:
            self._told[duty] = message
            self._log.warning("an upkeep task failed and will be retried", duty=duty, error=message)

    def _is_due(self, duty: str, seconds: float) -> bool:
        last = self._done.get(duty)
        if last is not None and time.monotonic() - last < seconds:
            return False
        self._done[duty] = time.monotonic()
        return True

    async def _park(self) -> None:
        """Park runs of unknown jobs. If any wait, finding them reads the whole backlog, so the next
        search starts only after fifty times the duration of this one."""
        started = time.monotonic()
        if started < self._next_park:
            return
        parked = await self._repeat(upkeep.park, _PARK_BATCH)
        if parked:
            self._log.warning("runs are waiting for a worker that knows their job", parked=parked)
        self._next_park = started + 50 * (time.monotonic() - started)

    async def _repeat(self, duty: Callable[[int], Query[int]], limit: int = _BATCH) -> int:
        total = 0
        while True:
            moved = await self._call(duty(limit))
            total += moved
            if moved < limit:
                return total

    async def _call(self, query: Query[T]) -> T:
        answer = await self._database.fetch(query, is_hurried=False)
        self.goes_on()
        return answer
