"""Request bodies about schedules, named as the columns are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import Field

from rota.api.schemas.values import Instant, Payload, Reason, Seconds
from rota.api.schemas.views import Body, ChangeBody, examples

LONGEST = 3_153_600_000  # a hundred years
_WHOLE = 2**31 - 1
Word = Annotated[str, Field(min_length=1, max_length=100)]


class Requirement(Body):
    """A job or schedule that must have succeeded before."""

    name: str = Field(min_length=1, max_length=200, description="A job or a schedule.")
    within_seconds: Seconds | None = Field(
        default=None,
        gt=0,
        le=LONGEST,
        description="Maximum age of the success, in seconds; null: the last run must have "
        "succeeded.",
    )


class Timing(Body):
    """A timing. Exactly one of `cron`, `interval_seconds`, `run_at` (and `init`) is set."""

    cron: str | None = Field(
        default=None, min_length=1, max_length=1000, description="Cron expression."
    )
    interval_seconds: Seconds | None = Field(
        default=None, ge=1, le=LONGEST, description="Interval between runs, in seconds."
    )
    run_at: Instant | None = Field(default=None, description="Run once, at this time.")
    timezone: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="IANA time zone of the cron expression. Default: UTC.",
    )
    gap: Literal["run_after", "skip"] | None = Field(
        default=None, description="Policy for local times skipped by a clock change."
    )
    fold: Literal["first", "second", "both"] | None = Field(
        default=None, description="Policy for local times repeated by a clock change."
    )
    has_seconds: bool | None = Field(
        default=None, description="Whether the cron expression has a seconds field."
    )
    start_at: Instant | None = Field(default=None, description="Earliest run time.")
    end_at: Instant | None = Field(default=None, description="Latest run time.")
    calendar: str | None = Field(
        default=None, min_length=1, max_length=100, description="Calendar to use."
    )
    on_closed: Literal["skip", "next_day"] | None = Field(
        default=None, description="Policy for times the calendar excludes."
    )


class ScheduleFields(Timing):
    """All that a schedule has; null means its default."""

    init: Literal["once", "release", "start"] | None = Field(
        default=None, description="Run when the application starts."
    )
    every_from: Literal["start", "end"] | None = Field(
        default=None, description="Whether the interval is measured from the start or end of a run."
    )
    max_runs: int | None = Field(
        default=None,
        ge=1,
        le=_WHOLE,
        description="Number of runs after which the schedule is finished.",
    )
    jitter_seconds: Seconds | None = Field(
        default=None, ge=0, le=LONGEST, description="Maximum random delay of each run."
    )
    burst_allowed: bool | None = Field(
        default=None, description="Start on time even if many schedules are due at once."
    )
    catch_up: Literal["none", "latest", "all"] | None = Field(
        default=None, description="Policy for missed times."
    )
    catch_up_seconds: Seconds | None = Field(
        default=None,
        ge=0,
        le=LONGEST,
        description="How far back to catch up, in seconds; null: no limit.",
    )
    catch_up_limit: int | None = Field(
        default=None, ge=1, le=_WHOLE, description="Maximum number of missed times to catch up."
    )
    grace_seconds: Seconds | None = Field(
        default=None, ge=0, le=LONGEST, description="Lateness that still counts as on time."
    )
    overlap: Literal["skip", "queue_one", "queue_all", "cancel_running", "allow"] | None = Field(
        default=None, description="Policy while the previous run is unfinished."
    )
    max_concurrent_runs: int | None = Field(
        default=None,
        ge=1,
        le=_WHOLE,
        description="Number of unfinished runs at which the overlap policy applies.",
    )
    pause_after_failures: int | None = Field(
        default=None, ge=1, le=_WHOLE, description="Pause after this many consecutive failures."
    )
    requires: list[Requirement] | None = Field(
        default=None, max_length=100, description="What must have succeeded before."
    )
    is_shadow: bool | None = Field(
        default=None, description="Record decisions, but enqueue nothing."
    )
    delete_when_finished: bool | None = Field(
        default=None, description="Delete the schedule when it is finished."
    )
    payload: Payload | None = Field(default=None, description="Payload of its runs.")
    queue: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Queue of its runs. Default: the job's.",
    )
    priority: int | None = Field(
        default=None, ge=0, le=9, description="Priority of its runs; lower runs first."
    )
    max_attempts: int | None = Field(
        default=None, ge=1, le=100, description="Maximum attempts of its runs."
    )
    timeout_seconds: Seconds | None = Field(
        default=None, gt=0, le=LONGEST, description="Timeout of each attempt."
    )
    run_tags: list[Word] | None = Field(
        default=None, max_length=100, description="Tags of its runs."
    )
    run_metadata: dict[str, Any] | None = Field(default=None, description="Metadata of its runs.")
    description: str | None = Field(default=None, max_length=10_000, description="What it is for.")
    tags: list[Word] | None = Field(default=None, max_length=100, description="Tags.")
    metadata: dict[str, Any] | None = Field(default=None, description="Custom metadata.")
    is_enabled: bool | None = Field(default=None, description="Whether the schedule is enabled.")


class NewSchedule(ScheduleFields):
    """Schedule to create."""

    model_config = examples(
        {
            "name": "digest",
            "job": "send_digest",
            "cron": "0 8 * * 1-5",
            "timezone": "America/New_York",
            "payload": {"user_id": 7},
        }
    )

    name: str = Field(min_length=1, max_length=200, description="Unique within its tenant.")
    job: str = Field(min_length=1, max_length=200, description="Job to run.")
    tenant: str = Field(default="", max_length=200, description="Tenant.")
    template: str | None = Field(
        default=None, min_length=1, max_length=200, description="Timing template to use."
    )
    reason: Reason = None


class ScheduleChanges(ScheduleFields, ChangeBody):
    """Fields to change; others keep their values."""

    model_config = examples({"cron": "0 9 * * 1-5", "is_enabled": True})

    job: str | None = Field(default=None, min_length=1, max_length=200, description="New job.")
    reset: (
        bool | Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Len(0, 100)]
    ) = Field(
        default=False,
        description="Fields to reset to the values in the code; true: all that were changed.",
    )
    reason: Reason = None


class Revert(Body):
    """Edit to revert."""

    model_config = examples({"entry_id": 12, "reason": "the books close at two after all"})

    entry_id: int = Field(ge=1, le=2**63 - 1, description="The `id` of the edit.")
    reason: Reason = None


# Columns that have another name than the argument of `app.schedule`.
ARGUMENTS = {
    "interval_seconds": "every",
    "run_at": "at",
    "has_seconds": "with_seconds",
    "jitter_seconds": "jitter",
    "catch_up_seconds": "catch_up_window",
    "grace_seconds": "grace",
    "is_shadow": "shadow",
    "timeout_seconds": "timeout",
    "is_enabled": "enabled",
}


def arguments(body: Body) -> dict[str, Any]:
    """Return the sent fields as the arguments of admin."""
    given = body.model_dump(exclude_unset=True)
    return {ARGUMENTS.get(name, name): value for name, value in given.items()}


class Pause(Body):
    """Duration of the pause, and the reason."""

    model_config = examples({"reason": "migration", "until": "2026-03-08T11:00:00Z"})

    reason: Reason = None
    until: Instant | None = Field(default=None, description="Resume automatically at this time.")
    seconds: Seconds | None = Field(
        default=None, gt=0, le=LONGEST, description="Resume automatically after this many seconds."
    )


class BackfillRequest(Body):
    """Past period to backfill."""

    model_config = examples(
        {"from_at": "2026-03-02T00:00:00Z", "until_at": "2026-03-09T00:00:00Z", "dry_run": True}
    )

    from_at: Instant = Field(description="Start of the period.")
    until_at: Instant = Field(description="End of the period; not in the future.")
    dry_run: bool = Field(default=False, description="Report what would be done without doing it.")
    rate: float | None = Field(
        default=None, gt=0, le=1_000_000, description="Maximum runs per minute."
    )
    priority: int | None = Field(default=None, ge=0, le=9, description="Priority of these runs.")
    again: bool = Field(default=False, description="Include times that already ran.")
    reason: Reason = None


class PreviewRequest(Timing):
    """Timing to preview, and which of its times to list."""

    model_config = examples({"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 5})

    count: int | None = Field(
        default=None, ge=1, le=1000, description="Number of times. Default: 10."
    )
    after: Instant | None = Field(default=None, description="Start after this time. Default: now.")
    until: Instant | None = Field(default=None, description="End of the period.")
    viewer_zone: str | None = Field(
        default=None, min_length=1, max_length=100, description="Also show times in this time zone."
    )


class NewTemplate(Body):
    """Timing template to create or change."""

    model_config = examples({"cron": "0 9 * * 1-5", "description": "Monday to Friday at nine"})

    cron: str = Field(min_length=1, max_length=1000, description="Cron expression.")
    description: str = Field(default="", max_length=10_000, description="What it is for.")
    reason: Reason = None
