"""The statements of a tick; several of them share a connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from rota.postgres.pipeline.prepared import Prepared
from rota.postgres.queries import Query, each, first, nothing, only
from rota.postgres.sessions.connection import AsyncConn
from rota.postgres.statements import Statements
from rota.postgres.workers.leases import Holder


class HeldDue(NamedTuple):
    """Due schedules that this ticker decides. Without `hold` they could not be held."""

    hold: int | None
    ids: Sequence[int]


class DueRow(NamedTuple):
    """A due schedule, as JSON, with the values that its decision depends on."""

    schedule: str
    clock: datetime
    unfinished: int
    job_refusal: str | None
    calendar: str | None
    made_up: int
    triggered: int
    place: int | None
    crowd: int
    is_full: bool


class HeldSchedule(NamedTuple):
    """A schedule that an open transaction has locked, and whether for long."""

    id: int
    name: str
    pid: int
    since: datetime
    query: str
    is_long: bool


class RequirementState(NamedTuple):
    """When a required schedule or job last succeeded, and whether its last run did. `fault`: why
    the requirement is invalid."""

    name: str
    succeeded_at: datetime | None
    was_ok: bool | None
    fault: str | None


class InitRun(NamedTuple):
    """The run of an init schedule. Without `run`: the schedule is locked by an open transaction,
    and its run is still due."""

    schedule: str
    run: int | None


class TickStatements:
    """The prepared statements that every tick of every worker sends. When many schedules are due at
    once, most workers that wake find all of them held."""

    def __init__(self, statements: Statements) -> None:
        get = statements.get
        self._hold = Prepared("hold_due", get("schedules/hold_due"))
        self._release = Prepared("release_hold", get("schedules/release"))
        self._write = Prepared("write_ticks", get("schedules/write_ticks"))

    async def hold_due(self, conn: AsyncConn, *, limit: int, seconds: float) -> HeldDue:
        params = {"limit": limit, "hold_seconds": seconds}
        (held,) = await self._hold.fetch(conn, params, HeldDue._make)
        return held

    async def release(self, conn: AsyncConn, hold: int) -> None:
        await self._release.fetch(conn, {"hold": hold}, tuple)

    async def write(self, conn: AsyncConn, worker: int, ticks: str) -> set[int]:
        """Write the ticks, a JSON document. Return the ids of the schedules that were written."""
        rows = await self._write.fetch(conn, {"worker": worker, "ticks": ticks}, tuple)
        return {row[0] for row in rows}


def next_due() -> Query[float | None]:
    """Return the seconds until the next schedule is due; None if there is none."""
    return Query("schedules/next_due", {}, first(lambda row: row[0]))


def read_due(ids: Sequence[int], *, spreads: bool, free: int) -> Query[list[DueRow]]:
    """Read due schedules. `spreads` gives each its place among those due at the same time, except
    the first `free`."""
    params = {"ids": ids, "spreads": spreads, "free": free}
    return Query("schedules/read_due", params, each(DueRow._make))


def requirements(schedule: int, names: Sequence[str], tenant: str) -> Query[list[RequirementState]]:
    params = {"id": schedule, "names": list(names), "tenant": tenant}
    return Query("schedules/requirements", params, each(RequirementState._make))


def ensure_ledger(instants: Iterable[datetime]) -> Query[None]:
    """Create partitions for decisions about times outside of those that upkeep creates."""
    return Query("schedules/ensure_ledger", {"instants": list(instants)}, nothing)


def holders(ids: Sequence[int]) -> Query[list[HeldSchedule]]:
    """Return those of these schedules that are locked by an open transaction."""
    return Query("schedules/holders", {"ids": list(ids)}, each(HeldSchedule._make))


def lock_holder() -> Query[Holder | None]:
    """Return the session whose lock prevents ticks from holding due schedules."""
    return Query("schedules/lock_holder", {}, first(Holder._make))


def pass_over(batch: Sequence[int], passed: Iterable[int], *, seconds: float) -> Query[None]:
    """Skip some schedules of the batch for a while."""
    params = {"batch": list(batch), "passed": list(passed), "seconds": seconds}
    return Query("schedules/pass_over", params, nothing)


def cancel_others(ids: Iterable[int]) -> Query[None]:
    """Cancel older runs of these schedules, to make room for the newest."""
    return Query("schedules/cancel_others", {"ids": sorted(ids)}, nothing)


def park(schedule: int, version: int, error: str) -> Query[bool]:
    """Park a schedule; return whether that could be written."""
    params = {"id": schedule, "version": version, "error": error}
    return Query("schedules/park", params, only(lambda row: row[0] is not False))


def limit_locks(milliseconds: int) -> Query[None]:
    """Set the lock timeout of the transaction that this statement begins."""
    return Query("session/limit_locks", {"milliseconds": milliseconds}, nothing)


def run_inits(worker: int, release: str | None) -> Query[list[InitRun]]:
    """Enqueue the runs of init schedules that the start of workers requires."""
    params = {"worker": worker, "release": release}
    return Query("schedules/run_inits", params, each(InitRun._make))
