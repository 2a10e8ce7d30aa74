"""Schedules in responses. Request bodies are in schedule_bodies."""

from __future__ import annotations

from typing import Any, Literal

from rota.api.schemas.views import page, view
from rota.model.occurrence import OccurrenceInfo
from rota.model.schedule_edit import ManualRun, Override, ScheduleEdit
from rota.model.schedule_info import BackfillInfo, ScheduleInfo, TemplateInfo, Triggered
from rota.timing.preview import PreviewRow

ScheduleState = Literal["active", "pending", "paused", "disabled", "finished", "parked"]
Decision = Literal[
    "ran", "caught_up", "skipped", "missed", "superseded", "triggered", "backfilled"
]  # fmt: skip
_AT = "2026-03-09T12:00:00Z"
SCHEDULE_EXAMPLE: dict[str, Any] = {
    "id": 3, "tenant": "", "name": "digest", "job": "send_digest", "state": "active",
    "timing": "at 08:00 on weekdays", "description": "", "tags": [], "metadata": {},
    "cron": "0 8 * * 1-5", "interval_seconds": None, "run_at": None, "init": None,
    "has_seconds": False, "timezone": "America/New_York", "gap": "run_after", "fold": "first",
    "every_from": "start", "start_at": None, "end_at": None, "max_runs": None,
    "jitter_seconds": 0.0, "burst_allowed": False, "calendar": None, "on_closed": "skip",
    "catch_up": "latest",
    "catch_up_seconds": None, "catch_up_limit": 100, "grace_seconds": 60.0, "overlap": "skip",
    "max_concurrent_runs": 1, "pause_after_failures": None, "requires": [], "is_shadow": False,
    "delete_when_finished": False, "payload": {"user_id": 7}, "queue": None, "priority": None,
    "max_attempts": None, "timeout_seconds": None, "run_tags": None, "run_metadata": None,
    "is_enabled": True, "paused_at": None, "paused_by": None, "pause_reason": None,
    "paused_until": None, "is_system": False, "created_at": _AT, "updated_at": _AT,
    "updated_by": "api:admin", "version": 1, "anchor_at": _AT, "next_run_at": _AT,
    "moved_to": None, "finished_at": None, "parked_at": None, "error": None, "run_count": 0,
    "failures_in_a_row": 0, "last_enqueued_at": None, "last_run_at": None,
    "last_run_success": None, "last_success_at": None, "total_runs": 0,
    "success_rate_percent": None, "avg_duration_ms": None, "max_duration_ms": None,
    "max_duration_ms_7d": None,
}  # fmt: skip
ScheduleView = view(
    ScheduleInfo,
    "Schedule",
    {
        "id": "ID.",
        "tenant": "Tenant; empty: no tenant.",
        "name": "Unique within its tenant.",
        "job": "Job.",
        "state": "State. `pending`: the next tick computes its run time; `parked`: its "
        "timing cannot be computed, see `error`.",
        "timing": "When it runs, in words.",
        "description": "What it is for.",
        "tags": "Tags.",
        "metadata": "Custom metadata.",
        "cron": "Cron expression.",
        "interval_seconds": "Interval between runs, in seconds.",
        "run_at": "Run once, at this time.",
        "init": "Run when the application starts: once, release or start.",
        "has_seconds": "Whether the cron expression has a seconds field.",
        "timezone": "IANA time zone of the cron expression.",
        "gap": "Policy for local times skipped by a clock change.",
        "fold": "Policy for local times repeated by a clock change.",
        "every_from": "Whether the interval is measured from the start or end of a run.",
        "start_at": "Earliest run time.",
        "end_at": "Latest run time.",
        "max_runs": "Number of runs after which the schedule is finished.",
        "jitter_seconds": "Maximum random delay of each run.",
        "burst_allowed": "Start on time even if many schedules are due at once.",
        "calendar": "Calendar that it uses.",
        "on_closed": "Policy for times the calendar excludes.",
        "catch_up": "Policy for missed times.",
        "catch_up_seconds": "How far back to catch up, in seconds; null: no limit.",
        "catch_up_limit": "Maximum number of missed times to catch up.",
        "grace_seconds": "Lateness that still counts as on time.",
        "overlap": "Policy while the previous run is unfinished.",
        "max_concurrent_runs": "Number of unfinished runs at which the overlap policy applies.",
        "pause_after_failures": "Pause after this many consecutive failures.",
        "requires": "Jobs and schedules that must have succeeded.",
        "is_shadow": "Record decisions, but enqueue nothing.",
        "delete_when_finished": "Delete the schedule when it is finished.",
        "payload": "Payload of its runs; null: the job's default.",
        "queue": "Queue of its runs; null: the job's.",
        "priority": "Priority of its runs; null: the job's.",
        "max_attempts": "Maximum attempts of its runs; null: the job's.",
        "timeout_seconds": "Timeout of each attempt of its runs; null: the job's.",
        "run_tags": "Tags of its runs; null: the job's.",
        "run_metadata": "Metadata of its runs; null: the job's.",
        "is_enabled": "Whether the schedule is enabled.",
        "paused_at": "Since when it is paused.",
        "paused_by": "Who paused it.",
        "pause_reason": "Why it is paused.",
        "paused_until": "When it resumes automatically.",
        "is_system": "Whether it is one of Rota's own.",
        "created_at": "When it was created.",
        "updated_at": "When it was last changed.",
        "updated_by": "Who changed it.",
        "version": "Incremented with each change; also the ETag.",
        "anchor_at": "Reference time of an interval.",
        "next_run_at": "Next run time.",
        "moved_to": "Next run time, if set by an operator.",
        "finished_at": "When it finished.",
        "parked_at": "When it was parked.",
        "error": "Why it is parked.",
        "run_count": "Runs that count against `max_runs`.",
        "failures_in_a_row": "Consecutive failures since the last success.",
        "last_enqueued_at": "When its last run was enqueued.",
        "last_run_at": "Start of its last run.",
        "last_run_success": "Whether its last run succeeded.",
        "last_success_at": "When a run last succeeded.",
        "total_runs": "Runs that have ended.",
        "success_rate_percent": "Percentage of runs that succeeded.",
        "avg_duration_ms": "Average duration.",
        "max_duration_ms": "Longest duration.",
        "max_duration_ms_7d": "Longest duration in the last seven days.",
    },
    SCHEDULE_EXAMPLE,
    state=ScheduleState,
)
SchedulePage = page(ScheduleView)

OccurrenceView = view(
    OccurrenceInfo,
    "Occurrence",
    {
        "schedule": "Schedule.",
        "nominal_at": "Scheduled time, or the first of several with the same decision.",
        "through_at": "Last of these times.",
        "count": "Number of scheduled times.",
        "decision": "Decision; `triggered` or `backfilled`: what people ran beside its times.",
        "reason": "Reason.",
        "claimed_at": "When a worker began to decide.",
        "decided_at": "Time of the decision.",
        "decided_by": "The worker that decided.",
        "enqueued_at": "When its run was enqueued.",
        "run_id": "Its run.",
        "backfill_run_id": "Run that a backfill created for it later.",
        "state": "The state of its run.",
        "success": "Whether its run succeeded.",
        "duration_ms": "Duration of its run.",
        "lateness_ms": "How late its run started.",
        "error": "Error of its run.",
        "is_moved": "Whether an operator has set this time.",
        "details": "Further details of the decision.",
        "backfill_state": "State of the backfill's run, until retention deletes it.",
        "backfill_count": "Number of its times that backfills ran later.",
        "backfill_states": "These times by the state of their last run.",
    },
    {
        "schedule": "digest",
        "nominal_at": _AT,
        "through_at": _AT,
        "count": 1,
        "decision": "ran",
        "reason": None,
        "claimed_at": _AT,
        "decided_at": _AT,
        "decided_by": 3,
        "enqueued_at": _AT,
        "run_id": 42,
        "backfill_run_id": None,
        "state": "succeeded",
        "success": True,
        "duration_ms": 214.5,
        "lateness_ms": 12.0,
        "error": None,
        "is_moved": False,
        "details": None,
        "backfill_state": None,
        "backfill_count": 0,
        "backfill_states": None,
    },
    decision=Decision,
)
OccurrencePage = page(OccurrenceView)

TemplateView = view(
    TemplateInfo,
    "ScheduleTemplate",
    {
        "name": "Name.",
        "cron": "Cron expression.",
        "description": "What it is for.",
        "version": "Incremented with each change; also the ETag.",
    },
    {
        "name": "Weekdays 9 AM",
        "cron": "0 9 * * 1-5",
        "description": "Monday to Friday at nine",
        "version": 1,
    },
)
TemplatePage = page(TemplateView)

TriggeredView = view(
    Triggered,
    "Triggered",
    {"run_id": "The run.", "job": "Job.", "schedule": "Schedule that requested it."},
    {"run_id": 42, "job": "send_digest", "schedule": "digest"},
)
BackfillView = view(
    BackfillInfo,
    "Backfill",
    {
        "schedule": "Schedule that was backfilled.",
        "from_at": "Start of the period.",
        "until_at": "End of the period.",
        "times": "Scheduled times that got a run, or would get one.",
        "left_out": "Times that had already run.",
        "is_dry_run": "Whether nothing was enqueued.",
        "backfill_id": "Backfill ID.",
        "run_ids": "The runs, in the order of the times.",
        "ran": "Times that had already run.",
    },
    {
        "schedule": "digest",
        "from_at": "2026-03-02T00:00:00Z",
        "until_at": _AT,
        "times": ["2026-03-02T13:00:00Z"],
        "left_out": 5,
        "is_dry_run": False,
        "backfill_id": 1,
        "run_ids": [42],
        "ran": ["2026-03-03T13:00:00Z"],
    },
)
_EDIT: dict[str, Any] = {
    "id": 12, "at": _AT, "actor": "api:admin", "action": "schedule.updated",
    "reason": "the books close later", "can_revert": True,
    "changes": [{"field": "cron", "before": "0 3 * * *", "after": "30 2 * * *"}],
}  # fmt: skip
EditView = view(
    ScheduleEdit,
    "ScheduleEdit",
    {
        "id": "Audit entry ID, for `revert`.",
        "at": "Time of the change.",
        "actor": "Who did it.",
        "action": "What was done.",
        "reason": "Reason.",
        "changes": "Each field with its value before and after.",
        "can_revert": "Whether it can be reverted.",
    },
    _EDIT,
)
EditPage = page(EditView)
OverrideView = view(
    Override,
    "ScheduleOverride",
    {
        "field": "The field.",
        "stored": "Its value.",
        "code": "The value in the code.",
        "changed_by": "Who changed it.",
        "changed_at": "When it was changed.",
    },
    {
        "field": "cron", "stored": "0 9 * * *", "code": "0 8 * * *", "changed_by": "cli:ada",
        "changed_at": _AT,
    },
)  # fmt: skip
_MANUAL: dict[str, Any] = {
    "at": _AT, "actor": "api:admin", "kind": "triggered", "reason": "asked for", "run_id": 42,
    "state": "succeeded", "from_at": None, "until_at": None, "runs": 1,
}  # fmt: skip
ManualView = view(
    ManualRun,
    "ManualRun",
    {
        "at": "When it was requested.",
        "actor": "Who did it.",
        "kind": "A single run, or a backfill.",
        "reason": "Reason.",
        "run_id": "The single run.",
        "state": "State of the single run; null once it is deleted.",
        "from_at": "Backfills: start of the period.",
        "until_at": "Backfills: end of the period.",
        "runs": "Number of runs enqueued.",
    },
    _MANUAL,
    kind=Literal["triggered", "backfilled"],
)
ManualPage = page(ManualView)
ComingView = view(
    PreviewRow,
    "ComingTime",
    {
        "at": "The instant.",
        "local": "Local time in the schedule's time zone.",
        "viewer_local": "Local time in the viewer's time zone, if given.",
        "note": "Note: a clock change, or a day excluded by the calendar.",
        "is_skipped": "Whether it will be skipped.",
    },
    {
        "at": _AT,
        "local": "2026-03-09T08:00:00-04:00",
        "viewer_local": None,
        "note": "",
        "is_skipped": False,
    },
)
