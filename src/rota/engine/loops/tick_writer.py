"""Writes the decisions of a tick, and handles schedules that cannot be written.

A schedule that another transaction holds is passed over, and a schedule that fails is written
alone, so that neither stops others. An error in the schedule itself parks it; an error of this
worker, or of the moment, leaves the schedule for the next tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

import msgspec
from psycopg import errors

from rota.model.schedule import Schedule, Segment
from rota.postgres.errors import is_missing_partition
from rota.postgres.schedules.ticks import (
    HeldSchedule,
    TickStatements,
    cancel_others,
    ensure_ledger,
    holders,
    limit_locks,
    lock_holder,
    park,
    pass_over,
)
from rota.postgres.sessions.outage import is_unwritable
from rota.postgres.sessions.pool import AsyncConn, Database
from rota.telemetry.logger import get_logger
from rota.timing.decisions import Tick
from rota.timing.judging import Occurrence

Decided = tuple[Schedule, Tick]

# The end of a run holds its schedule for a moment; a longer hold is not waited for.
_TRIES = (0.02, 0.08)
_PASS_SECONDS = 2.0
_MOST_REPORTED = 10_000


class TickWriter:
    """Logs each problem once."""

    def __init__(self, database: Database, statements: TickStatements) -> None:
        self._fetch_on = database.fetch_on
        self._statements = statements
        self._log = get_logger("scheduler")
        self._reported: dict[object, object] = {}
        self._missing: list[Decided] = []
        self._passed: set[int] = set()
        self._crowded: set[int] = set()
        self.worker = 0

    async def write(self, conn: AsyncConn, ticks: list[Decided]) -> None:
        """Write the decisions together; if that fails, one by one."""
        if not ticks:
            return
        try:
            written = await self._write_together(conn, ticks)
        except errors.DatabaseError as error:
            if conn.closed or is_unwritable(error):
                raise
            if len(ticks) == 1:
                await self._give_up(conn, ticks[0][0], error)
                return
            for tick in ticks:
                await self.write(conn, [tick])
            return
        for tick in ticks:
            if tick[0].id in written:
                self._reported.pop(tick[0].id, None)
            else:
                self._missing.append(tick)

    async def _write_together(self, conn: AsyncConn, ticks: list[Decided]) -> set[int]:
        data = msgspec.json.encode([_written(*pair) for pair in ticks]).decode()
        try:
            written = await self._statements.write(conn, self.worker, data)
        except errors.CheckViolation as error:
            if not is_missing_partition(error):
                raise
            instants = {
                occurrence.nominal_at for _, tick in ticks for occurrence in tick.occurrences
            }
            await self._fetch_on(conn, ensure_ledger(instants))
            written = await self._statements.write(conn, self.worker, data)
        self._crowded |= {s.id for s, tick in ticks if tick.cancels_running and s.id in written}
        return written

    async def end(self, conn: AsyncConn, batch: Sequence[int]) -> None:
        """The batch is complete: retry the schedules that were not written, and pass over the
        rest."""
        missing, self._missing = self._missing, []
        held = await self._holders(conn, missing) if missing else []
        for seconds in _TRIES:
            if not held:
                break
            await asyncio.sleep(seconds)
            ids = {schedule.id for schedule in held}
            await self.write(conn, [tick for tick in missing if tick[0].id in ids])
            missing, self._missing = self._missing, []
            held = await self._holders(conn, missing) if missing else []
        for schedule in held:
            self._log_held(schedule)
        passed, self._passed = self._passed | {schedule.id for schedule in held}, set()
        if passed:
            await self._fetch_on(conn, pass_over(batch, passed, seconds=_PASS_SECONDS))
        await self._make_room(conn)

    async def _holders(self, conn: AsyncConn, missing: list[Decided]) -> list[HeldSchedule]:
        return await self._fetch_on(conn, holders([schedule.id for schedule, _ in missing]))

    def _log_held(self, schedule: HeldSchedule) -> None:
        if schedule.is_long and self._is_news(schedule.id, (schedule.pid, schedule.since)):
            self._log.warning(
                "skipping a schedule for now: an open transaction has locked it",
                schedule=schedule.name,
                pid=schedule.pid,
                since=schedule.since,
                query=schedule.query,
            )

    async def tell_unheld(self, conn: AsyncConn) -> None:
        """Log that ticks continue without holds; two workers may decide the same schedules."""
        holder = await self._fetch_on(conn, lock_holder())
        if holder is not None and self._is_news("hold_due", (holder.pid, holder.since)):
            self._log.warning(
                "an open transaction holds the scheduler's lock, continuing without it",
                **holder._asdict(),
            )

    async def _make_room(self, conn: AsyncConn) -> None:
        """Cancel runs whose schedule's overlap policy asks for it. If another transaction holds
        such a run, try again after the next tick."""
        if not self._crowded:
            return
        try:
            async with conn.transaction():
                await self._fetch_on(conn, limit_locks(1000))
                await self._fetch_on(conn, cancel_others(self._crowded))
        except errors.LockNotAvailable as error:
            self._log.warning("runs to be cancelled are locked by another transaction", error=error)
        else:
            self._crowded.clear()

    # Schedules that cannot be written or processed.

    async def _give_up(
        self, conn: AsyncConn, schedule: Schedule, error: errors.DatabaseError
    ) -> None:
        message = error.diag.message_primary or str(error)
        if _is_of_the_row(error):
            reason = f"its runs could not be enqueued: {message}"
            await self.park(conn, schedule.id, schedule.name, schedule.tick_version, reason)
        else:
            self.leave(schedule.id, schedule.name, message)

    def leave(self, number: int, name: str, error: object) -> None:
        """Leave the schedule for the next tick: nothing is wrong with the schedule itself."""
        self._passed.add(number)
        if self._is_news(number, str(error)):
            self._log.error(
                "a schedule could not be processed and will be retried", schedule=name, error=error
            )

    async def park(self, conn: AsyncConn, number: int, name: str, version: int, why: str) -> None:
        if self._is_news(number, why):
            self._log.error("schedule parked", schedule=name, error=why)
        if not await self._fetch_on(conn, park(number, version, why)):
            self._passed.add(number)

    def _is_news(self, about: object, value: object) -> bool:
        if self._reported.get(about) == value:
            return False
        if len(self._reported) >= _MOST_REPORTED:
            self._reported.clear()
        self._reported[about] = value
        return True


def _is_of_the_row(error: errors.DatabaseError) -> bool:
    """Return whether the values of the schedule cannot be stored, as opposed to an error of the
    server."""
    state = error.sqlstate or ""
    return state[:2] in ("22", "23", "RO") or state == "P0001"


class _Written(msgspec.Struct, omit_defaults=True):
    """A tick of one schedule, with the names that `write_ticks` reads."""

    id: int
    tick_version: int
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
        schedule.tick_version,
        schedule.cursor_at,
        tick.cursor_at,
        "infinity" if tick.waits_for_end else tick.next_run_at,
        tick.occurrences,
        tick.segments,
        tick.is_resumed,
        tick.is_finished,
        tick.is_moved,
    )
