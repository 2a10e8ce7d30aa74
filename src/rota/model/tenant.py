"""The records of tenants, and the one rule for their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, TypedDict

LONGEST_NAME = 200
TenantOrder = Literal["name", "waiting", "failed"]
_CONTROLS = frozenset(map(chr, [*range(32), 127]))


def tenant_fault(name: str) -> str | None:
    """Return what is wrong with the name of a tenant, in words, like `rota.tenant_fault` of the
    database."""
    if not 1 <= len(name) <= LONGEST_NAME:
        return f"must have 1 to {LONGEST_NAME} characters"
    if not _CONTROLS.isdisjoint(name):
        return "must not contain control characters"
    if "/" in name:
        return "must not contain a slash"
    return "must not start or end with a space" if name != name.strip(" ") else None


def split_name(name: str) -> tuple[str | None, str]:
    """Split `acme/sync` into tenant `acme` and schedule `sync`; without a slash, or without a valid
    tenant before it, the whole text is the name."""
    tenant, slash, rest = name.partition("/")
    return (tenant, rest) if slash and rest and tenant_fault(tenant) is None else (None, name)


class TenantSettings(TypedDict, total=False):
    """Settings of a tenant; None is the default. `weight` is its share of the workers relative to
    other tenants. Quotas: waiting runs, and runs and payload bytes enqueued per day. The `…_days`
    are maximums: they can only shorten the retention of its ended runs."""

    weight: float | None
    max_waiting: int | None
    max_runs_per_day: int | None
    max_bytes_per_day: int | None
    retention_days: int | None
    failed_retention_days: int | None
    description: str | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class TenantInfo:
    """A tenant with its settings, which are the defaults unless `has_settings`, and its counts.
    `held` runs are part of `queued`. The counts of unfinished runs are `counted_seconds` old.
    `today` is the current day in UTC; `enqueued_today` and `bytes_today` are counted only for
    tenants with a daily quota."""

    name: str
    has_settings: bool
    weight: float
    max_waiting: int | None
    max_runs_per_day: int | None
    max_bytes_per_day: int | None
    retention_days: int | None
    failed_retention_days: int | None
    is_paused: bool
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    description: str
    metadata: dict[str, Any]
    version: int
    schedules: int
    blocked: int
    scheduled: int
    queued: int
    held: int
    running: int
    oldest_seconds: float | None
    counted_seconds: float
    enqueued_today: int
    bytes_today: int
    succeeded_today: int
    failed_today: int

    @property
    def waiting(self) -> int:
        return self.blocked + self.scheduled + self.queued


@dataclass(frozen=True, slots=True)
class TenantDay:
    """The attempts of a tenant that ended on a day (UTC) by result, their total duration, and what
    was enqueued, which is counted only if there is a quota. `other`: cancelled or snoozed."""

    day: date
    enqueued: int
    bytes: int
    succeeded: int
    failed: int
    other: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TenantStats:
    """A tenant with its counts, its activity by day, newest first, and the results of its `recent`
    runs: the last ones that ended, at most 1,000."""

    tenant: TenantInfo
    days: list[TenantDay]
    recent: int
    recent_failed: int
    median_seconds: float | None
    p95_seconds: float | None


@dataclass(frozen=True, slots=True)
class TenantShare:
    """A tenant's share of the attempts that ended, in total and by day (UTC), oldest first. `name`
    is None for all `tenants` that are not listed, combined."""

    name: str | None
    tenants: int
    weight: float | None
    ended: int
    counts: list[int]


@dataclass(frozen=True, slots=True)
class TenantAmount:
    """What a deletion would remove, without log lines."""

    schedules: int
    open_runs: int
    running: int
    ended_runs: int
    keys: int


@dataclass(frozen=True, slots=True)
class TenantRemoval:
    """What was deleted, by table. If not `is_done`, the time limit was reached and data is left."""

    name: str
    is_done: bool
    removed: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(self.removed.values())


@dataclass(frozen=True, slots=True)
class TenantArchive:
    """An archive that was written: its path, and the number of rows of each table."""

    name: str
    path: str
    rows: dict[str, int]
