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

from rota.errors import TimingError
from rota.model.schedule import Schedule
from rota.runtime.duties.tick_faults import fault_of
from rota.runtime.duties.tick_writer import Decided, TickWriter
from rota.runtime.loop import Loop
from rota.store.pipeline.prepared import Prepared
from rota.store.sessions.pool import AsyncConn, Database
from rota.timing.bursts import AT_ONCE, Place
from rota.timing.calendar import Calendar
from rota.timing.calendar_json import from_json
from rota.timing.decisions import decide
from rota.timing.judging import Due

_BATCH = 200
_HOLD_SECONDS = 5.0
# What is decided is written before the hold runs out, however much there is to decide.
_THINK_SECONDS = 1.0
_TURN_SECONDS = 0.002


class Scheduler(Loop):
    """Sleeps until the next schedule is due, at most for `tick_seconds`, and wakes on changes."""

    name = "scheduler"

    def __init__(
        self,
        database: Database,
        *,
        tick_seconds: float,
        burst_seconds: float = 0.0,
        random_number: Callable[[], float] = random.random,
    ) -> None:
        super().__init__()
        self._database = database
        get = database.statements.get
        # When many schedules are due at once, most of the workers that wake find all of it held.
        self._hold = Prepared("hold_due", get("schedules/hold_due"))
        self._release = Prepared("release_hold", get("schedules/release"))
        self._writer = TickWriter(database)
        self._tick_seconds = tick_seconds
        self._burst_seconds = burst_seconds
        self._random = random_number

    def serve(self, worker: int) -> None:
        """Decisions are this worker's from now on."""
        self._writer.worker = worker

    async def run_once(self) -> float:
        while await self.tick() >= _BATCH:
            self.goes_on()
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
            if not ids:
                return 0
            if hold is None:
                await self._writer.tell_unheld(conn)
            await self._think(conn, await self._read(conn, ids))
            await self._writer.end(conn, ids)
            if hold is not None:
                await self._release.fetch(conn, {"hold": hold}, tuple)
        return len(ids)

    async def _read(self, conn: AsyncConn, ids: Sequence[int]) -> Sequence[Any]:
        params = {"ids": ids, "spreads": self._burst_seconds > 0, "free": AT_ONCE}
        cursor = await conn.execute(self._database.statements.get("schedules/read_due"), params)
        return await cursor.fetchall()

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

    async def _write(self, conn: AsyncConn, ticks: list[Decided]) -> None:
        await self._writer.write(conn, ticks)

    async def _decide(self, conn: AsyncConn, row: Sequence[Any]) -> Decided | None:
        """One that cannot be followed stops no other."""
        (
            stored,
            clock,
            unfinished,
            job_refusal,
            calendar,
            made_up,
            triggered,
            place,
            crowd,
            is_full,
        ) = row
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
                triggered,
                None if place is None else Place(place, crowd, self._burst_seconds),
                is_full,
            )
            return schedule, decide(due, self._random)
        except Exception as error:
            if conn.closed:
                raise
            known = msgspec.json.decode(stored)
            why = fault_of(known, calendar, error)
            if why is None:
                self._writer.leave(known["id"], known["name"], error)
            else:
                await self._writer.park(conn, known["id"], known["name"], known["version"], why)
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


def _calendar(schedule: Schedule, definition: str | None) -> Calendar | None:
    if schedule.calendar is None:
        return None
    if definition is None:
        raise TimingError(f"there is no calendar {schedule.calendar!r}")
    return from_json({"name": schedule.calendar} | msgspec.json.decode(definition))
