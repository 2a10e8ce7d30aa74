"""The tick: decides every nominal time that has come, and records the decision.

Any worker may tick, and many do. A tick holds its schedules for a moment, so that two workers do
not decide the same one; it keeps no lock while it decides, and its decisions are written only for
schedules that have not changed since they were read. A ticker that stops in between delays no
other.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from rota.engine.loop import Loop
from rota.engine.loops.tick_faults import fault_of
from rota.engine.loops.tick_writer import Decided, TickWriter
from rota.errors import TimingError
from rota.model.schedule import Schedule
from rota.postgres.schedules import ticks
from rota.postgres.schedules.ticks import DueRow, TickStatements
from rota.postgres.sessions.pool import AsyncConn, Database
from rota.timing.bursts import AT_ONCE, BurstPlace
from rota.timing.calendar import Calendar
from rota.timing.calendar_json import from_json
from rota.timing.decisions import decide
from rota.timing.judging import Due

_BATCH = 200
_HOLD_SECONDS = 5.0
# Decisions are written before the hold expires, however many there are.
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
        self._ticks = TickStatements(database.statements)
        self._writer = TickWriter(database, self._ticks)
        self._tick_seconds = tick_seconds
        self._burst_seconds = burst_seconds
        self._random = random_number

    def serve(self, worker: int) -> None:
        """Write decisions under this worker id from now on."""
        self._writer.worker = worker

    async def run_once(self) -> float:
        while await self.tick() >= _BATCH:
            self.goes_on()
        seconds = await self._database.fetch(ticks.next_due())
        return self._tick_seconds if seconds is None else min(seconds, self._tick_seconds)

    async def tick(self) -> int:
        """Do one pass; return the number of schedules read."""
        async with self._database.connection() as conn:
            hold, ids = await self._ticks.hold_due(conn, limit=_BATCH, seconds=_HOLD_SECONDS)
            if not ids:
                return 0
            if hold is None:
                await self._writer.tell_unheld(conn)
            await self._think(conn, await self._read(conn, ids))
            await self._writer.end(conn, ids)
            if hold is not None:
                await self._ticks.release(conn, hold)
        return len(ids)

    async def _read(self, conn: AsyncConn, ids: Sequence[int]) -> list[DueRow]:
        query = ticks.read_due(ids, spreads=self._burst_seconds > 0, free=AT_ONCE)
        return await self._database.fetch_on(conn, query)

    async def _think(self, conn: AsyncConn, rows: Sequence[DueRow]) -> None:
        """Decide the schedules, and write the decisions."""
        decided = []
        began = rested = time.monotonic()
        for row in rows:
            if decision := await self._decide(conn, row):
                decided.append(decision)
            now = time.monotonic()
            if now - began > _THINK_SECONDS:
                await self._write(conn, decided)
                decided, began = [], now
            if now - rested > _TURN_SECONDS:
                # Deciding a long backlog takes long; let the event loop run leases and slots.
                await asyncio.sleep(0)
                rested = time.monotonic()
        await self._write(conn, decided)

    async def _write(self, conn: AsyncConn, decided: list[Decided]) -> None:
        await self._writer.write(conn, decided)

    async def _decide(self, conn: AsyncConn, row: DueRow) -> Decided | None:
        """Decide one schedule. A schedule that fails does not affect the others."""
        try:
            schedule = Schedule.read(row.schedule)
            due = Due(
                schedule,
                row.clock,
                row.unfinished,
                row.job_refusal,
                _calendar(schedule, row.calendar),
                await self._unmet(conn, schedule, row.clock),
                row.made_up,
                row.triggered,
                None
                if row.place is None
                else BurstPlace(row.place, row.crowd, self._burst_seconds),
                row.is_full,
            )
            return schedule, decide(due, self._random)
        except Exception as error:
            if conn.closed:
                raise
            known = msgspec.json.decode(row.schedule)
            why = fault_of(known, row.calendar, error)
            if why is None:
                self._writer.leave(known["id"], known["name"], error)
            else:
                await self._writer.park(
                    conn, known["id"], known["name"], known["tick_version"], why
                )
            return None

    async def _unmet(self, conn: AsyncConn, schedule: Schedule, clock: datetime) -> tuple[str, ...]:
        if not schedule.requires:
            return ()
        names = [requirement.name for requirement in schedule.requires]
        query = ticks.requirements(schedule.id, names, schedule.tenant)
        found = await self._database.fetch_on(conn, query)
        if found[0].fault is not None:
            raise TimingError(found[0].fault)
        facts = {fact.name: fact for fact in found}
        unmet = []
        for requirement in schedule.requires:
            fact = facts[requirement.name]
            if requirement.within_seconds is None:
                is_met = bool(fact.was_ok)
            else:
                oldest = clock - timedelta(seconds=requirement.within_seconds)
                is_met = fact.succeeded_at is not None and fact.succeeded_at >= oldest
            if not is_met:
                unmet.append(requirement.name)
        return tuple(unmet)


def _calendar(schedule: Schedule, definition: str | None) -> Calendar | None:
    if schedule.calendar is None:
        return None
    if definition is None:
        raise TimingError(f"there is no calendar {schedule.calendar!r}")
    return from_json({"name": schedule.calendar} | msgspec.json.decode(definition))
