"""What a request says about a schedule, in the words of its columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.api.schemas.values import Instant, Payload, Reason
from rota.api.schemas.views import Body, examples

LONGEST = 3_153_600_000  # a hundred years
_WHOLE = 2**31 - 1
Word = Annotated[str, Field(min_length=1, max_length=100)]


class Requirement(Body):
    """What must have succeeded before."""

    name: str = Field(min_length=1, max_length=200, description="A job or a schedule.")
    within_seconds: float | None = Field(
        default=None, gt=0, le=LONGEST, description="So long ago at most; null: at its last run."
    )


class Timing(Body):
    """When. Exactly one of `cron`, `interval_seconds`, `run_at` (and `init`) says it."""

    cron: str | None = Field(default=None, min_length=1, max_length=1000, description="As cron.")
    interval_seconds: float | None = Field(
        default=None, ge=1, le=LONGEST, description="Every so many seconds."
    )
    run_at: Instant | None = Field(default=None, description="Once, at this time.")
    timezone: str | None = Field(
        default=None, min_length=1, max_length=100, description="Local time of cron. Default: UTC."
    )
    gap: Literal["run_after", "skip"] | None = Field(
        default=None, description="A local time that does not exist runs after the gap, or not."
    )
    fold: Literal["first", "second", "both"] | None = Field(
        default=None, description="Which of two equal local times counts."
    )
    has_seconds: bool | None = Field(default=None, description="Cron has a field for seconds.")
    start_at: Instant | None = Field(default=None, description="No times before this.")
    end_at: Instant | None = Field(default=None, description="No times after this.")
    calendar: str | None = Field(
        default=None, min_length=1, max_length=100, description="The calendar to follow."
    )
    on_closed: Literal["skip", "next_day"] | None = Field(
        default=None, description="What becomes of times on which the calendar is closed."
    )


class ScheduleFields(Timing):
    """All that a schedule has; null means its default."""

    init: Literal["once", "release", "start"] | None = Field(
        default=None, description="At starts of the application."
    )
    every_from: Literal["start", "end"] | None = Field(
        default=None, description="An interval counts from the start or the end of a run."
    )
    max_runs: int | None = Field(default=None, ge=1, le=_WHOLE, description="Finished after that.")
    jitter_seconds: float | None = Field(
        default=None, ge=0, le=LONGEST, description="Up to so much later, at random."
    )
    burst_allowed: bool | None = Field(
        default=None, description="Start on time, however many schedules are due then."
    )
    catch_up: Literal["none", "latest", "all"] | None = Field(
        default=None, description="Which times that were missed run later."
    )
    catch_up_seconds: float | None = Field(
        default=None,
        ge=0,
        le=LONGEST,
        description="Times missed longer ago do not run; null: however long ago.",
    )
    catch_up_limit: int | None = Field(
        default=None, ge=1, le=_WHOLE, description="Most missed times that run."
    )
    grace_seconds: float | None = Field(
        default=None, ge=0, le=LONGEST, description="So late is still on time."
    )
    overlap: Literal["skip", "queue_one", "queue_all", "cancel_running", "allow"] | None = Field(
        default=None, description="What happens when the previous run has not ended."
    )
    max_concurrent_runs: int | None = Field(
        default=None, ge=1, le=_WHOLE, description="Unfinished runs at once."
    )
    pause_after_failures: int | None = Field(
        default=None, ge=1, le=_WHOLE, description="It pauses itself after so many in a row."
    )
    requires: list[Requirement] | None = Field(
        default=None, max_length=100, description="What must have succeeded before."
    )
    is_shadow: bool | None = Field(default=None, description="Decide, but enqueue nothing.")
    delete_when_finished: bool | None = Field(default=None, description="Remove it at its end.")
    payload: Payload | None = Field(default=None, description="What its runs are called with.")
    queue: str | None = Field(
        default=None, min_length=1, max_length=100, description="Of its runs."
    )
    priority: int | None = Field(default=None, ge=0, le=9, description="Of its runs.")
    max_attempts: int | None = Field(default=None, ge=1, le=100, description="Of its runs.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=LONGEST, description="Of its runs."
    )
    run_tags: list[Word] | None = Field(default=None, max_length=100, description="Of its runs.")
    run_metadata: dict[str, Any] | None = Field(default=None, description="Of its runs.")
    description: str | None = Field(default=None, max_length=10_000, description="What it is for.")
    tags: list[Word] | None = Field(
        default=None, max_length=100, description="Words to find it by."
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Anything to keep with it.")
    is_enabled: bool | None = Field(default=None, description="Whether its times count.")


class NewSchedule(ScheduleFields):
    """A schedule to make."""

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
    job: str = Field(min_length=1, max_length=200, description="What it runs.")
    tenant: str = Field(default="", max_length=200, description="Whose it is.")
    template: str | None = Field(
        default=None, min_length=1, max_length=200, description="A template's cron says when."
    )
    reason: Reason = None


class ScheduleChanges(ScheduleFields):
    """What is to be different; what is not sent stays."""

    model_config = examples({"cron": "0 9 * * 1-5", "is_enabled": True})

    job: str | None = Field(default=None, min_length=1, max_length=200, description="Another job.")
    reason: Reason = None


class ScheduleAction(Body):
    """Why."""

    model_config = examples({"reason": "the shop is closed"})

    reason: Reason = None


class Revert(Body):
    """Which edit to take back."""

    model_config = examples({"entry_id": 12, "reason": "the books close at two after all"})

    entry_id: int = Field(ge=1, le=2**63 - 1, description="The `id` of the edit.")
    reason: Reason = None


# Where the column has another name than the argument of `app.schedule`.
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
    """What was sent, as the arguments of admin."""
    given = body.model_dump(exclude_unset=True)
    return {ARGUMENTS.get(name, name): value for name, value in given.items()}


class Pause(Body):
    """For how long, and why."""

    model_config = examples({"reason": "migration", "until": "2026-03-08T11:00:00Z"})

    reason: Reason = None
    until: Instant | None = Field(default=None, description="It goes on by itself then.")
    seconds: float | None = Field(
        default=None, gt=0, le=LONGEST, description="Or so long from now."
    )


class Resumption(Body):
    """What becomes of the times that the pause left out."""

    model_config = examples({"catch_up": True})

    catch_up: bool = Field(default=False, description="They count as missed: the policy decides.")
    reason: Reason = None


class Trigger(Body):
    """What to run it with."""

    model_config = examples({"payload": {"user_id": 8}})

    payload: Payload | None = Field(default=None, description="Instead of the schedule's.")
    reason: Reason = None


class Rescheduling(Body):
    """Its next time: an instant, or so long from now."""

    model_config = examples({"at": "2026-03-08T11:00:00Z"}, {"seconds": 1800})

    at: Instant | None = Field(default=None, description="This instant.")
    seconds: float | None = Field(default=None, ge=0, le=LONGEST, description="So long from now.")
    reason: Reason = None


class BackfillRequest(Body):
    """A stretch of the past to run."""

    model_config = examples(
        {"from_at": "2026-03-02T00:00:00Z", "until_at": "2026-03-09T00:00:00Z", "dry_run": True}
    )

    from_at: Instant = Field(description="From here.")
    until_at: Instant = Field(description="Up to here; not in the future.")
    dry_run: bool = Field(default=False, description="Only say what would be done.")
    rate: float | None = Field(default=None, gt=0, le=1_000_000, description="Most runs a minute.")
    priority: int | None = Field(default=None, ge=0, le=9, description="Of these runs.")
    again: bool = Field(default=False, description="Also times that have run already.")
    reason: Reason = None


class PreviewRequest(Timing):
    """A timing that is not saved, and which of its times to list."""

    model_config = examples({"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 5})

    count: int | None = Field(default=None, ge=1, le=1000, description="So many; default ten.")
    after: Instant | None = Field(default=None, description="After this; default now.")
    until: Instant | None = Field(default=None, description="Up to this.")
    viewer_zone: str | None = Field(
        default=None, min_length=1, max_length=100, description="Also in this zone."
    )


class NewTemplate(Body):
    """A timing to start from."""

    model_config = examples({"cron": "0 9 * * 1-5", "description": "Monday to Friday at nine"})

    cron: str = Field(min_length=1, max_length=1000, description="When.")
    description: str = Field(default="", max_length=10_000, description="What it is for.")
    reason: Reason = None
