"""The records of schedules and backfills."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from rota.model.fields import Field
from rota.model.schedule_fields import (
    CATCH_UP_WINDOW,
    GRACE,
    INTERVAL,
    IS_ENABLED,
    JITTER,
    METADATA,
    PAYLOAD,
    REQUIRES,
    RUN_METADATA,
    RUN_TAGS,
    TAGS,
    TIMEOUT,
    BurstAllowed,
    CalendarField,
    CatchUpField,
    CatchUpLimit,
    Cron,
    DeleteWhenFinished,
    Description,
    EndAt,
    EveryFromField,
    FoldField,
    GapField,
    HasSeconds,
    InitField,
    IsShadow,
    JobName,
    MaxAttempts,
    MaxConcurrentRuns,
    MaxRuns,
    OnClosedField,
    OverlapField,
    PauseAfterFailures,
    Priority,
    QueueField,
    RunAt,
    ScheduleName,
    ScheduleTenant,
    StartAt,
    Timezone,
)
from rota.model.states import ScheduleState


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """One row of `rota.schedules` with its status.

    `state` is `active`, `pending` (the next tick computes its time), `paused`, `disabled`,
    `finished` or `parked` (its timing cannot be computed; `error` says why). `timing` is the timing
    in words. `version` increases with every edit, but not with ticks.
    """

    id: Annotated[int, Field("ID.", 3)]
    tenant: ScheduleTenant
    name: ScheduleName
    job: JobName
    state: Annotated[
        ScheduleState,
        Field(
            "State. `pending`: the next tick computes its run time; `parked`: its timing cannot "
            "be computed, see `error`.",
            "active",
        ),
    ]
    timing: Annotated[str, Field("When it runs, in words.", "at 08:00 on weekdays")]
    description: Description
    tags: Annotated[list[str], TAGS]
    metadata: Annotated[dict[str, Any], METADATA]
    cron: Cron
    interval_seconds: Annotated[float | None, INTERVAL]
    run_at: RunAt
    init: InitField
    has_seconds: HasSeconds
    timezone: Timezone
    gap: GapField
    fold: FoldField
    every_from: EveryFromField
    start_at: StartAt
    end_at: EndAt
    max_runs: MaxRuns
    jitter_seconds: Annotated[float, JITTER]
    burst_allowed: BurstAllowed
    calendar: CalendarField
    on_closed: OnClosedField
    catch_up: CatchUpField
    catch_up_window_seconds: Annotated[float | None, CATCH_UP_WINDOW]
    catch_up_limit: CatchUpLimit
    grace_seconds: Annotated[float, GRACE]
    overlap: OverlapField
    max_concurrent_runs: MaxConcurrentRuns
    pause_after_failures: PauseAfterFailures
    requires: Annotated[list[dict[str, Any]], REQUIRES]
    is_shadow: IsShadow
    delete_when_finished: DeleteWhenFinished
    payload: Annotated[dict[str, Any] | None, PAYLOAD]
    queue: QueueField
    priority: Priority
    max_attempts: MaxAttempts
    timeout_seconds: Annotated[float | None, TIMEOUT]
    run_tags: Annotated[list[str] | None, RUN_TAGS]
    run_metadata: Annotated[dict[str, Any] | None, RUN_METADATA]
    is_enabled: Annotated[bool, IS_ENABLED]
    paused_at: Annotated[datetime | None, Field("Since when it is paused.")]
    paused_by: Annotated[str | None, Field("Who paused it.")]
    pause_reason: Annotated[str | None, Field("Why it is paused.")]
    paused_until: Annotated[datetime | None, Field("When it resumes automatically.")]
    is_system: Annotated[bool, Field("Whether it is one of Rota's own.", False)]
    created_at: Annotated[datetime, Field("When it was created.")]
    updated_at: Annotated[datetime, Field("When it was last changed.")]
    updated_by: Annotated[str | None, Field("Who changed it.", "api:admin")]
    version: Annotated[int, Field("Incremented with each change; also the ETag.", 1)]
    anchor_at: Annotated[datetime, Field("Reference time of an interval.")]
    next_run_at: Annotated[datetime | None, Field("Next run time.")]
    moved_to: Annotated[datetime | None, Field("Next run time, if set by an operator.")]
    finished_at: Annotated[datetime | None, Field("When it finished.")]
    parked_at: Annotated[datetime | None, Field("When it was parked.")]
    error: Annotated[str | None, Field("Why it is parked.")]
    run_count: Annotated[int, Field("Runs that count against `max_runs`.", 0)]
    failures_in_a_row: Annotated[int, Field("Consecutive failures since the last success.", 0)]
    last_enqueued_at: Annotated[datetime | None, Field("When its last run was enqueued.")]
    last_run_at: Annotated[datetime | None, Field("Start of its last run.")]
    last_run_success: Annotated[bool | None, Field("Whether its last run succeeded.")]
    last_success_at: Annotated[datetime | None, Field("When a run last succeeded.")]
    total_runs: Annotated[int, Field("Runs that have ended.", 0)]
    success_rate_percent: Annotated[float | None, Field("Percentage of runs that succeeded.")]
    avg_duration_ms: Annotated[float | None, Field("Average duration.")]
    max_duration_ms: Annotated[float | None, Field("Longest duration.")]
    max_duration_ms_7d: Annotated[float | None, Field("Longest duration in the last seven days.")]


@dataclass(frozen=True, slots=True)
class Triggered:
    """The run that `trigger` enqueued."""

    run_id: Annotated[int, Field("The run.", 42)]
    job: Annotated[str, Field("Job.", "send_digest")]
    schedule: Annotated[str, Field("Schedule that requested it.", "digest")]


@dataclass(frozen=True, slots=True)
class BackfillInfo:
    """What a backfill enqueued, or would enqueue in a dry run: then `times` have no runs.
    `left_out` counts times in the range that already ran; `ran` lists them."""

    schedule: Annotated[str, Field("Schedule that was backfilled.", "digest")]
    from_at: Annotated[datetime, Field("Start of the period.")]
    until_at: Annotated[datetime, Field("End of the period.")]
    times: Annotated[
        list[datetime],
        Field("Scheduled times that got a run, or would get one.", ["2026-03-02T13:00:00Z"]),
    ]
    left_out: Annotated[int, Field("Times that had already run.", 5)]
    is_dry_run: Annotated[bool, Field("Whether nothing was enqueued.", False)]
    backfill_id: Annotated[int | None, Field("Backfill ID.", 1)] = None
    run_ids: Annotated[list[int], Field("The runs, in the order of the times.", [42])] = field(
        default_factory=list
    )
    ran: Annotated[
        list[datetime], Field("Times that had already run.", ["2026-03-03T13:00:00Z"])
    ] = field(default_factory=list)
