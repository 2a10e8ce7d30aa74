"""Tenants: their fields, the one rule for their names, and a tenant as a reader sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal, TypedDict

from rota.model.fields import Check, Field

LONGEST_NAME = 200
TenantOrder = Literal["name", "waiting", "failed"]
_NO_LIMIT: dict[str, Any] = {"none_means": "no limit", "metavar": "N|none"}
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


def _check_name(name: str, value: str) -> str:
    if (fault := tenant_fault(value)) is not None:
        raise ValueError(f"{name} {fault}, not {value!r}")
    return value


TenantName = Annotated[str, Field("Tenant name.", "acme", longest=LONGEST_NAME), Check(_check_name)]
Order = Annotated[
    TenantOrder,
    Field("Sort order: by name, most waiting runs first, or most failures today first.", "name"),
]


class TenantFilters(TypedDict, total=False):
    paused: Annotated[bool | None, Field("Only paused tenants, or only those that are not.", True)]
    text: Annotated[str | None, Field("Text in the name or description.", "acme", shortest=1)]


class TenantSettings(TypedDict, total=False):
    """Settings of a tenant; None is the default."""

    weight: Annotated[
        float | None,
        Field(
            "Weight of its share of the workers among tenants.",
            2.0,
            least=0.01,
            most=1000,
            none_means="1",
        ),
    ]
    max_waiting: Annotated[
        int | None,
        Field("Maximum number of waiting runs.", 10_000, least=0, most=10**9, **_NO_LIMIT),
    ]
    max_runs_per_day: Annotated[
        int | None,
        Field("Maximum runs enqueued per day (UTC).", least=0, most=10**12, **_NO_LIMIT),
    ]
    max_bytes_per_day: Annotated[
        int | None,
        Field("Maximum payload bytes enqueued per day.", least=0, most=10**15, **_NO_LIMIT),
    ]
    retention_days: Annotated[
        int | None,
        Field(
            "Maximum days to keep its finished runs.",
            7,
            least=1,
            most=36_500,
            metavar="N|none",
            none_means="as set by their jobs",
        ),
    ]
    failed_retention_days: Annotated[
        int | None,
        Field(
            "Maximum days to keep its failed runs.",
            least=1,
            most=36_500,
            metavar="N|none",
            none_means="as other runs",
        ),
    ]
    description: Annotated[str | None, Field("Description.", longest=10_000)]
    metadata: Annotated[
        Mapping[str, Any] | None,
        Field("Custom metadata, as a JSON object.", {"plan": "gold"}, is_long=True),
    ]


@dataclass(frozen=True, slots=True)
class TenantInfo:
    """A tenant with its settings, which are the defaults unless `has_settings`, and its counts.
    `held` runs are part of `queued`."""

    name: Annotated[str, Field("Name.", "acme")]
    has_settings: Annotated[bool, Field("Whether anything differs from the defaults.", True)]
    weight: Annotated[float, Field("Weight of its share of the workers among tenants.", 2.0)]
    max_waiting: Annotated[
        int | None, Field("Maximum number of waiting runs; null: no limit.", 10_000)
    ]
    max_runs_per_day: Annotated[int | None, Field("Maximum runs enqueued per day (UTC).")]
    max_bytes_per_day: Annotated[int | None, Field("Maximum payload bytes enqueued per day.")]
    retention_days: Annotated[int | None, Field("Maximum days to keep its finished runs.", 7)]
    failed_retention_days: Annotated[int | None, Field("Maximum days to keep its failed runs.")]
    is_paused: Annotated[bool, Field("Whether the tenant is paused.", False)]
    paused_at: Annotated[datetime | None, Field("Since when it is paused.")]
    paused_by: Annotated[str | None, Field("Who paused it.")]
    pause_reason: Annotated[str | None, Field("Why it is paused.")]
    paused_until: Annotated[datetime | None, Field("When it resumes automatically.")]
    description: Annotated[str, Field("Description.", "")]
    metadata: Annotated[dict[str, Any], Field("Custom metadata.", {"plan": "gold"})]
    version: Annotated[int, Field("Incremented with each change of its settings.", 3)]
    schedules: Annotated[int, Field("Number of schedules.", 4)]
    blocked: Annotated[int, Field("Runs waiting for other runs.", 0)]
    scheduled: Annotated[int, Field("Runs waiting for their start time.", 12)]
    queued: Annotated[int, Field("Runs waiting for a worker.", 340)]
    held: Annotated[int, Field("Queued runs that are held back.", 0)]
    running: Annotated[int, Field("Runs claimed by a worker.", 16)]
    oldest_seconds: Annotated[
        float | None, Field("Age of the oldest run that a worker may take.", 4.2)
    ]
    counted_seconds: Annotated[float, Field("Age of the counts of unfinished runs.", 2.5)]
    enqueued_today: Annotated[
        int, Field("Runs enqueued today; counted only if there is a quota.", 0)
    ]
    bytes_today: Annotated[
        int, Field("Payload bytes enqueued today; counted only if there is a quota.", 0)
    ]
    succeeded_today: Annotated[int, Field("Attempts that succeeded today (UTC).", 5210)]
    failed_today: Annotated[int, Field("Attempts that failed today.", 17)]

    @property
    def waiting(self) -> int:
        return self.blocked + self.scheduled + self.queued


@dataclass(frozen=True, slots=True)
class TenantDay:
    """The attempts of a tenant that ended on a day (UTC) by result, their total duration, and what
    was enqueued."""

    day: Annotated[date, Field("Day, in UTC.", "2026-03-08")]
    enqueued: Annotated[int, Field("Runs enqueued; counted only if there is a quota.", 0)]
    bytes: Annotated[int, Field("Bytes of their payloads.", 0)]
    succeeded: Annotated[int, Field("Attempts that succeeded.", 5210)]
    failed: Annotated[int, Field("Attempts that failed, timed out or were lost.", 17)]
    other: Annotated[int, Field("Attempts that were cancelled or snoozed.", 2)]
    seconds: Annotated[float, Field("Total duration of the attempts, in seconds.", 812.5)]


@dataclass(frozen=True, slots=True)
class TenantStats:
    """A tenant with its counts, its activity by day, newest first, and the results of its `recent`
    runs: the last ones that ended."""

    tenant: Annotated[TenantInfo, Field("The tenant.")]
    days: Annotated[list[TenantDay], Field("The last month, newest day first.")]
    recent: Annotated[int, Field("Number of recent runs examined, up to 1,000.", 1000)]
    recent_failed: Annotated[int, Field("How many of them failed.", 3)]
    median_seconds: Annotated[float | None, Field("Median duration of their last attempts.", 0.12)]
    p95_seconds: Annotated[float | None, Field("95th percentile of the duration.", 1.8)]


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

    name: Annotated[str, Field("The tenant.", "acme")]
    is_done: Annotated[
        bool, Field("Whether the deletion is complete. If not, repeat the request.", True)
    ]
    removed: Annotated[
        dict[str, int],
        Field("Rows deleted by this request, by table.", {"open_runs": 3, "ended_runs": 5210}),
    ]

    @property
    def rows(self) -> int:
        return sum(self.removed.values())


@dataclass(frozen=True, slots=True)
class TenantArchive:
    """An archive that was written: its path, and the number of rows of each table."""

    name: str
    path: str
    rows: dict[str, int]
