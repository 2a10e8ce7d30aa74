"""The records of schedules, calendars, templates and backfills."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rota.model.states import ScheduleState


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """One row of `rota.schedules` with its status.

    `state` is `active`, `pending` (the next tick computes its time), `paused`, `disabled`,
    `finished` or `parked` (its timing cannot be computed; `error` says why). `timing` is the timing
    in words. `version` increases with every edit, but not with ticks.
    """

    id: int
    tenant: str
    name: str
    job: str
    state: ScheduleState
    timing: str
    description: str
    tags: list[str]
    metadata: dict[str, Any]
    cron: str | None
    interval_seconds: float | None
    run_at: datetime | None
    init: str | None
    has_seconds: bool
    timezone: str
    gap: str
    fold: str
    every_from: str
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    jitter_seconds: float
    burst_allowed: bool
    calendar: str | None
    on_closed: str
    catch_up: str
    catch_up_seconds: float | None
    catch_up_limit: int
    grace_seconds: float
    overlap: str
    max_concurrent_runs: int
    pause_after_failures: int | None
    requires: list[dict[str, Any]]
    is_shadow: bool
    delete_when_finished: bool
    payload: dict[str, Any] | None
    queue: str | None
    priority: int | None
    max_attempts: int | None
    timeout_seconds: float | None
    run_tags: list[str] | None
    run_metadata: dict[str, Any] | None
    is_enabled: bool
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    is_system: bool
    created_at: datetime
    updated_at: datetime
    updated_by: str | None
    version: int
    anchor_at: datetime
    next_run_at: datetime | None
    moved_to: datetime | None
    finished_at: datetime | None
    parked_at: datetime | None
    error: str | None
    run_count: int
    failures_in_a_row: int
    last_enqueued_at: datetime | None
    last_run_at: datetime | None
    last_run_success: bool | None
    last_success_at: datetime | None
    total_runs: int
    success_rate_percent: float | None
    avg_duration_ms: float | None
    max_duration_ms: float | None
    max_duration_ms_7d: float | None


@dataclass(frozen=True, slots=True)
class CalendarInfo:
    """Days and windows in which schedules do not run. `schedules` is the number of schedules that
    use it."""

    name: str
    description: str
    definition: dict[str, Any]
    updated_at: datetime
    version: int
    schedules: int


@dataclass(frozen=True, slots=True)
class TemplateInfo:
    """A timing template."""

    name: str
    cron: str
    description: str
    version: int


@dataclass(frozen=True, slots=True)
class Triggered:
    """The run that `trigger` enqueued."""

    run_id: int
    job: str
    schedule: str


@dataclass(frozen=True, slots=True)
class BackfillInfo:
    """What a backfill enqueued, or would enqueue in a dry run: then `times` have no runs.
    `left_out` counts times in the range that already ran; `ran` lists them."""

    schedule: str
    from_at: datetime
    until_at: datetime
    times: list[datetime]
    left_out: int
    is_dry_run: bool
    backfill_id: int | None = None
    run_ids: list[int] = field(default_factory=list)
    ran: list[datetime] = field(default_factory=list)
