"""The tick: decides every nominal time that has come, and writes it down.

Any worker may tick, and many do. What one of them takes is held for a moment, so that two do
not think about the same schedule; no lock is held while it thinks, and what it writes counts only
for schedules that are still as they were read. A ticker that stops in between holds nobody up.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from psycopg import errors

from rota.errors import TimingError
from rota.model.schedule import Schedule, Segment
from rota.runtime.loop import Loop
from rota.store.errors import is_missing_partition
from rota.store.pool import AsyncConn, Database
from rota.store.prepared import Prepared
from rota.timing.calendar import Calendar
from rota.timing.calendar_json import from_json
from rota.timing.decisions import Tick, decide
from rota.timing.judging import Due, Occurrence

_BATCH = 200
_HOLD_SECONDS = 5.0
# What is decided is written before the hold runs out, however much there is to decide.
_THINK_SECONDS = 1.0
_TURN_SECONDS = 0.002
_ERROR_LENGTH = 1000


class Scheduler(Loop):
    """Sleeps until the next schedule is due, at most for `tick_seconds`, and wakes on changes."""

    name = "scheduler"

    def __init__(
        self,
        database: Database,
        *,
        tick_seconds: float,
        random_number: Callable[[], float] = random.random,
    ) -> None:
        super().__init__()
        self._database = database
        get = database.statements.get
        # When many schedules are due at once, most of the workers that wake find all of it held.
        self._hold = Prepared("hold_due", get("schedules/hold_due"))
        self._release = Prepared("release_hold", get("schedules/release"))
        self._write_ticks = Prepared("write_ticks", get("schedules/write_ticks"))
        self._tick_seconds = tick_seconds
        self._random = random_number
        self.worker = 0

    async def run_once(self) -> float:
        while await self.tick() >= _BATCH:
            pass
        async with self._database.connection() as conn:
            cursor = await conn.execute(self._database.statements.get("schedules/next_due"))
            row = await cursor.fetchone()
        seconds = row[0] if row else None
        return self._tick_seconds if seconds is None else min(seconds, self._tick_seconds)

    async def tick(self) -> int:
        """One pass. Answers how many schedules it looked at."""
        async with self._database.connection() as conn:
            params = {"limit": _BATCH, "hold_seconds": _HOLD_SECONDS}
            ((hold, ids),) = await self._hold.fetch(conn, params, tuple)
            if hold is None:
                return 0
            read_due = self._database.statements.get("schedules/read_due")
            cursor = await conn.execute(read_due, {"ids": ids})
            await self._think(conn, await cursor.fetchall())
            await self._release.fetch(conn, {"hold": hold}, tuple)
        return len(ids)

    async def _think(self, conn: AsyncConn, rows: Sequence[Any]) -> None:
        """Decide them, and write what was decided."""
        ticks = []
        began = rested = time.monotonic()
        for row in rows:
            if one := await self._decide(conn, row):
                ticks.append(one)
            now = time.monotonic()
            if now - began > _THINK_SECONDS:
                await self._write(conn, ticks)
                ticks, began = [], now
            if now - rested > _TURN_SECONDS:
                # A long backlog is a long thought; leases and slots want their turn.
                await asyncio.sleep(0)
                rested = time.monotonic()
        await self._write(conn, ticks)

    # Thinking.

    async def _decide(self, conn: AsyncConn, row: Sequence[Any]) -> tuple[Schedule, Tick] | None:
        """One bad schedule is parked with its error and stops no other."""
        stored, clock, unfinished, job_refusal, calendar, made_up = row
        try:
            schedule = Schedule.read(stored)
            due = Due(
                schedule,
                clock,
                unfinished,
                job_refusal,
                _calendar(schedule, calendar),
                await self._unmet(conn, schedule, clock),
                made_up,
            )
            return schedule, decide(due, self._random)
        except Exception as error:
            known = msgspec.json.decode(stored)
            self._log.error("a schedule is parked", schedule=known["name"], error=error)
            await self._park(conn, known, str(error))
            return None

    async def _unmet(self, conn: AsyncConn, schedule: Schedule, clock: datetime) -> tuple[str, ...]:
        if not schedule.requires:
            return ()
        names = [one.name for one in schedule.requires]
        cursor = await conn.execute(
            self._database.statements.get("schedules/requirements"),
            {"names": names, "tenant": schedule.tenant},
        )
        facts = {name: (at, was_ok) for name, at, was_ok in await cursor.fetchall()}
        unmet = []
        for one in schedule.requires:
            succeeded_at, was_ok = facts[one.name]
            if one.within_seconds is None:
                is_met = bool(was_ok)
            else:
                oldest = clock - timedelta(seconds=one.within_seconds)
                is_met = succeeded_at is not None and succeeded_at >= oldest
            if not is_met:
                unmet.append(one.name)
        return tuple(unmet)

    async def _park(self, conn: AsyncConn, stored: dict[str, Any], error: str) -> None:
        params = {"id": stored["id"], "version": stored["version"], "error": error[:_ERROR_LENGTH]}
        await conn.execute(self._database.statements.get("schedules/park"), params)

    # Writing.

    async def _write(self, conn: AsyncConn, ticks: list[tuple[Schedule, Tick]]) -> None:
        if not ticks:
            return
        try:
            await self._write_together(conn, ticks)
        except errors.DatabaseError as error:
            if len(ticks) == 1:
                await self._park_unwritable(conn, ticks[0][0], error)
                return
            self._log.warning("a tick could not be written, trying one by one", error=error)
            for one in ticks:
                await self._write(conn, [one])

    async def _write_together(self, conn: AsyncConn, ticks: list[tuple[Schedule, Tick]]) -> None:
        get = self._database.statements.get
        data = msgspec.json.encode([_written(*one) for one in ticks]).decode()
        params = {"worker": self.worker, "ticks": data}
        try:
            rows = await self._write_ticks.fetch(conn, params, tuple)
        except errors.CheckViolation as error:
            if not is_missing_partition(error):
                raise
            instants = {one.nominal_at for _, tick in ticks for one in tick.occurrences}
            await conn.execute(get("schedules/ensure_ledger"), {"instants": list(instants)})
            rows = await self._write_ticks.fetch(conn, params, tuple)
        written = {row[0] for row in rows}
        crowded = [s.id for s, tick in ticks if tick.cancels_running and s.id in written]
        if crowded:
            await conn.execute(get("schedules/cancel_others"), {"ids": crowded})

    async def _park_unwritable(
        self, conn: AsyncConn, schedule: Schedule, error: errors.DatabaseError
    ) -> None:
        if isinstance(error, errors.OperationalError):
            raise error
        self._log.error("a schedule is parked", schedule=schedule.name, error=error)
        stored = {"id": schedule.id, "version": schedule.version}
        await self._park(conn, stored, f"its runs could not be enqueued: {error}")


def _calendar(schedule: Schedule, definition: str | None) -> Calendar | None:
    if schedule.calendar is None:
        return None
    if definition is None:
        raise TimingError(f"there is no calendar {schedule.calendar!r}")
    return from_json({"name": schedule.calendar} | msgspec.json.decode(definition))


class _Written(msgspec.Struct, omit_defaults=True):
    """A tick of one schedule by the names that `write_ticks` reads."""

    id: int
    version: int
    cursor_at: datetime
    new_cursor_at: datetime | None
    next_run_at: datetime | str | None
    occurrences: list[Occurrence]
    segments: tuple[Segment, ...] = ()
    is_resumed: bool = False
    is_finished: bool = False
    is_moved: bool = False


def _written(schedule: Schedule, tick: Tick) -> _Written:
    return _Written(
        schedule.id,
        schedule.version,
        schedule.cursor_at,
        tick.cursor_at,
        "infinity" if tick.waits_for_end else tick.next_run_at,
        tick.occurrences,
        tick.segments,
        tick.is_resumed,
        tick.is_finished,
        tick.is_moved,
    )
