"""Conditions that may need attention: one row type and one plan for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.postgres.plans import Execute, Plan


@dataclass(frozen=True, slots=True)
class JobFailures:
    """Attempts of the last hour, and the averages of the same hours of the seven days before."""

    job: str
    bad: int
    good: int
    usual_bad: float
    usual_good: float


@dataclass(frozen=True, slots=True)
class JobMinute:
    job: str
    at: datetime
    good: int
    bad: int


@dataclass(frozen=True, slots=True)
class FullQueue:
    name: str
    waiting: int
    max_waiting: int
    when_full: str
    full_since: datetime


@dataclass(frozen=True, slots=True)
class LateSchedule:
    """A late schedule. `total`: the number of all late ones. `workers`: live workers."""

    name: str
    tenant: str
    since: datetime
    is_pending: bool
    total: int
    workers: int


@dataclass(frozen=True, slots=True)
class LimitTrouble:
    """A problem of a limit. `what` is "blocked", a sequence that does not advance, or "mended", a
    counter that was wrong."""

    name: str
    tenant: str
    what: str
    keys: int
    run: int | None
    counted: int
    held: int
    since: datetime


@dataclass(frozen=True, slots=True)
class MissedSchedule:
    name: str
    tenant: str
    times: int
    since: datetime
    last_at: datetime
    why: str
    total: int


@dataclass(frozen=True, slots=True)
class ParkedSchedule:
    name: str
    tenant: str
    since: datetime
    error: str
    retry_at: datetime | None
    total: int


@dataclass(frozen=True, slots=True)
class PausedTenant:
    name: str
    paused_at: datetime
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    waiting: int
    total: int


@dataclass(frozen=True, slots=True)
class SlowRun:
    """A running run, and the successes of its job in the last week."""

    id: int
    job: str
    attempt: int
    max_attempts: int
    started_at: datetime
    worker: str | None
    seconds: float
    attempts: int
    longest_ms: float
    histogram: bytes


@dataclass(frozen=True, slots=True)
class OrphanedSchedule:
    name: str
    tenant: str
    job: str
    since: datetime
    total: int


@dataclass(frozen=True, slots=True)
class StoppedSchedule:
    name: str
    tenant: str
    since: datetime
    pause_reason: str | None
    total: int


@dataclass(frozen=True, slots=True)
class UnservedWork:
    job: str
    queue: str
    queued: int
    workers: int
    is_known: bool
    since: datetime | None


@dataclass(frozen=True, slots=True)
class RefusedPayloads:
    job: str
    runs: int
    since: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TroubledWorker:
    id: int
    name: str
    host: str
    pid: int
    state: str
    trouble: str | None
    errors: int
    is_stuck: bool
    heartbeat_at: datetime
    ended_at: datetime | None
    is_silent: bool
    acted_at: datetime  # when its event loop last claimed or stored something
    run: int | None
    job: str | None


def failing_jobs() -> Plan[list[JobFailures]]:
    rows = yield Execute("attention/failing_jobs", {})
    return [JobFailures(**row) for row in rows]


def last_errors(jobs: Sequence[str]) -> Plan[dict[str, str]]:
    """Return the most frequent error of each job."""
    rows = yield Execute("attention/last_errors", {"jobs": list(jobs)})
    return {row["job"]: row["last_error"] for row in rows}


def job_minutes(jobs: Sequence[str]) -> Plan[list[JobMinute]]:
    """Return the minutes of the last day in which these jobs had attempts."""
    rows = yield Execute("attention/minutes", {"jobs": list(jobs)})
    return [JobMinute(**row) for row in rows]


def full_queues() -> Plan[list[FullQueue]]:
    rows = yield Execute("attention/full_queues", {})
    return [FullQueue(**row) for row in rows]


def late_schedules(limit: int) -> Plan[list[LateSchedule]]:
    rows = yield Execute("attention/late_schedules", {"limit": limit})
    return [LateSchedule(**row) for row in rows]


def limit_troubles() -> Plan[list[LimitTrouble]]:
    rows = yield Execute("attention/limits", {})
    return [LimitTrouble(**row) for row in rows]


def missed_schedules(limit: int) -> Plan[list[MissedSchedule]]:
    rows = yield Execute("attention/missed_schedules", {"limit": limit})
    return [MissedSchedule(**row) for row in rows]


def parked_schedules(limit: int) -> Plan[list[ParkedSchedule]]:
    rows = yield Execute("attention/parked_schedules", {"limit": limit})
    return [ParkedSchedule(**row) for row in rows]


def paused_tenants(limit: int) -> Plan[list[PausedTenant]]:
    rows = yield Execute("attention/paused_tenants", {"limit": limit})
    return [PausedTenant(**row) for row in rows]


def refused_payloads() -> Plan[list[RefusedPayloads]]:
    rows = yield Execute("attention/refused_payloads", {})
    return [RefusedPayloads(**row) for row in rows]


def slow_runs(least_seconds: float) -> Plan[list[SlowRun]]:
    rows = yield Execute("attention/slow_runs", {"least": least_seconds}, is_large=True)
    return [SlowRun(**row) for row in rows]


def orphaned_schedules(limit: int) -> Plan[list[OrphanedSchedule]]:
    """Return schedules that would run, if code still declared their job."""
    rows = yield Execute("attention/orphaned_schedules", {"limit": limit})
    return [OrphanedSchedule(**row) for row in rows]


def stopped_schedules(limit: int) -> Plan[list[StoppedSchedule]]:
    """Return schedules that were paused by Rota itself."""
    rows = yield Execute("attention/stopped_schedules", {"limit": limit})
    return [StoppedSchedule(**row) for row in rows]


def unserved_work() -> Plan[list[UnservedWork]]:
    rows = yield Execute("attention/unserved", {})
    return [UnservedWork(**row) for row in rows]


def troubled_workers() -> Plan[list[TroubledWorker]]:
    rows = yield Execute("attention/workers", {})
    return [TroubledWorker(**row) for row in rows]
