"""Schedules in responses. Request bodies are in schedule_bodies."""

from __future__ import annotations

from typing import Any, Literal

from rota.api.schemas.views import page, view, view_of
from rota.model.occurrence import OccurrenceInfo
from rota.model.schedule_edit import ManualRun, Override, ScheduleEdit
from rota.model.schedule_info import BackfillInfo, ScheduleInfo, TemplateInfo
from rota.timing.preview import PreviewRow

ScheduleState = Literal["active", "pending", "paused", "disabled", "finished", "parked"]
Decision = Literal["ran", "caught_up", "skipped", "missed", "superseded", "triggered", "backfilled"]
_AT = "2026-03-09T12:00:00Z"
ScheduleView = view_of(ScheduleInfo)
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

TemplateView = view_of(TemplateInfo)
TemplatePage = page(TemplateView)
BackfillView = view_of(BackfillInfo)
_EDIT: dict[str, Any] = {
    "id": 12,
    "at": _AT,
    "actor": "api:admin",
    "action": "schedule.updated",
    "reason": "the books close later",
    "can_revert": True,
    "changes": [{"field": "cron", "before": "0 3 * * *", "after": "30 2 * * *"}],
}
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
        "field": "cron",
        "stored": "0 9 * * *",
        "code": "0 8 * * *",
        "changed_by": "cli:ada",
        "changed_at": _AT,
    },
)
_MANUAL: dict[str, Any] = {
    "at": _AT,
    "actor": "api:admin",
    "kind": "triggered",
    "reason": "asked for",
    "run_id": 42,
    "state": "succeeded",
    "from_at": None,
    "until_at": None,
    "runs": 1,
}
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
