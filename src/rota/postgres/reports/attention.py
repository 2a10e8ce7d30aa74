"""Conditions that may need attention: a row of each kind, with the statement that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from rota.postgres.plans import Execute, Plan


@dataclass(frozen=True, slots=True)
class JobFailures:
    """Attempts of the last hour, and the averages of the same hours of the seven days before."""

    STATEMENT: ClassVar = "attention/failing_jobs"

    job: str
    bad: int
    good: int
    usual_bad: float
    usual_good: float


@dataclass(frozen=True, slots=True)
class JobMinute:
    """A minute of the last day in which a job had attempts."""

    STATEMENT: ClassVar = "attention/minutes"

    job: str
    at: datetime
    good: int
    bad: int


@dataclass(frozen=True, slots=True)
class FullQueue:
    STATEMENT: ClassVar = "attention/full_queues"

    name: str
    waiting: int
    max_waiting: int
    when_full: str
    full_since: datetime


@dataclass(frozen=True, slots=True)
class LateSchedule:
    """A late schedule. `total`: the number of all late ones. `workers`: live workers."""

    STATEMENT: ClassVar = "attention/late_schedules"

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

    STATEMENT: ClassVar = "attention/limits"

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
    STATEMENT: ClassVar = "attention/missed_schedules"

    name: str
    tenant: str
    times: int
    since: datetime
    last_at: datetime
    why: str
    total: int


@dataclass(frozen=True, slots=True)
class ParkedSchedule:
    STATEMENT: ClassVar = "attention/parked_schedules"

    name: str
    tenant: str
    since: datetime
    error: str
    retry_at: datetime | None
    total: int


@dataclass(frozen=True, slots=True)
class PausedTenant:
    STATEMENT: ClassVar = "attention/paused_tenants"

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

    STATEMENT: ClassVar = "attention/slow_runs"

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
    STATEMENT: ClassVar = "attention/orphaned_schedules"

    name: str
    tenant: str
    job: str
    since: datetime
    total: int


@dataclass(frozen=True, slots=True)
class StoppedSchedule:
    """A schedule that was paused by Rota itself."""

    STATEMENT: ClassVar = "attention/stopped_schedules"

    name: str
    tenant: str
    since: datetime
    pause_reason: str | None
    total: int


@dataclass(frozen=True, slots=True)
class UnservedWork:
    STATEMENT: ClassVar = "attention/unserved"

    job: str
    queue: str
    queued: int
    workers: int
    is_known: bool
    since: datetime | None


@dataclass(frozen=True, slots=True)
class RefusedPayloads:
    STATEMENT: ClassVar = "attention/refused_payloads"

    job: str
    runs: int
    since: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TroubledWorker:
    STATEMENT: ClassVar = "attention/workers"

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


def last_errors(jobs: Sequence[str]) -> Plan[dict[str, str]]:
    """Return the most frequent error of each job."""
    rows = yield Execute("attention/last_errors", {"jobs": list(jobs)})
    return {row["job"]: row["last_error"] for row in rows}
