"""Jobs, and the differences between code and database."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import Field

from rota.api.schemas.values import Payload, Reason, Seconds
from rota.api.schemas.views import Body, ChangeBody, examples, page, view
from rota.model.drift import Drift, Synced
from rota.model.job import JobFunction, JobInfo
from rota.model.retention import MOST_COUNT, MOST_DAYS

_AT = "2026-03-08T09:00:00Z"
Editable = Literal[
    "description", "queue", "priority", "max_attempts", "timeout_seconds", "backoff", "tags",
    "metadata", "default_payload", "events", "event_filters", "event_delivery", "log_level",
    "retention", "delay_seconds", "expires_in_seconds", "key", "tenant",
]  # fmt: skip
JOB_EXAMPLE: dict[str, Any] = {
    "name": "send_welcome", "description": "", "queue": "mail", "priority": 5, "max_attempts": 3,
    "timeout_seconds": 30.0, "backoff": None, "executor": "async",
    "payload_schema": {"type": "object", "properties": {"user_id": {"type": "integer"}}},
    "tags": ["mail"], "metadata": {}, "source": "shop/jobs.py:12", "workers": 2,
    "created_at": _AT, "updated_at": _AT, "default_payload": None, "is_enabled": True,
    "application": "shop.jobs", "code": None, "edited": {}, "deleted_from_code_at": None,
    "version": 1, "events": ["user.created"], "event_filters": {"user.created": {"plan": "pro"}},
    "event_delivery": {"throttle_seconds": 60.0, "key": "user:{user_id}"},
    "strategies": ["on_demand", "event"],
    "log_level": None, "retention": None, "kind": "python", "function_name": None, "run_as": None,
    "transaction_mode": None, "is_system": False, "delay_seconds": None,
    "expires_in_seconds": 3600.0, "key": "welcome:{user_id}", "tenant": None,
    "definition_hash": "5f2d7c8be6a14f0c9d3e1a2b4c5d6e7f", "last_run_at": _AT, "next_run_at": None,
}  # fmt: skip
JobView = view(
    JobInfo,
    "Job",
    {
        "name": "Name.",
        "description": "What it does.",
        "queue": "Queue of its runs.",
        "priority": "Priority of its runs; lower runs first.",
        "max_attempts": "Maximum attempts of its runs.",
        "timeout_seconds": "Timeout of each attempt.",
        "backoff": "Retry backoff; null: as configured.",
        "executor": "Executor of its handler.",
        "payload_schema": "JSON Schema of its payload.",
        "tags": "Tags.",
        "metadata": "Custom metadata.",
        "source": "Location of its code.",
        "workers": "Live workers that know it.",
        "created_at": "When it was first registered.",
        "updated_at": "When it was last changed.",
        "default_payload": "Default payload.",
        "is_enabled": "Whether the job is enabled.",
        "application": "The application that declares it.",
        "code": "Latest definition in the code.",
        "edited": "Fields changed by an operator, with who and when.",
        "deleted_from_code_at": "When it was removed from the code.",
        "version": "Incremented with each change; also the ETag.",
        "events": "Events that start it: names and patterns.",
        "event_filters": "Payload filters by event.",
        "event_delivery": "Debounce or throttle settings for events; null: every event starts a "
        "run.",
        "strategies": "Ways the job is started.",
        "log_level": "Minimum level of stored log lines; null: as configured.",
        "retention": "Retention of its runs and logs; null: as configured.",
        "kind": "python, sql or flow.",
        "function_name": "SQL jobs: function or procedure to call.",
        "run_as": "SQL jobs: role it runs as; null: the workers' role.",
        "transaction_mode": "SQL jobs: whole, or none for a procedure that commits by itself.",
        "is_system": "Whether it is one of Rota's own.",
        "delay_seconds": "Delay of runs that are enqueued without one.",
        "expires_in_seconds": "Cancel runs that have not started this long after they may.",
        "key": "Template of the idempotency key of its runs, filled from the payload.",
        "tenant": "Tenant of runs that are enqueued without one.",
        "definition_hash": "Hash of its definition in the code.",
        "last_run_at": "When a run of it last ended.",
        "next_run_at": "When the first of its schedules is due.",
    },
    JOB_EXAMPLE,
)
JobPage = page(JobView)

DriftView = view(
    Drift,
    "Drift",
    {
        "kind": "What differs: a job or a schedule.",
        "name": "Name.",
        "job": "Job it belongs to.",
        "field": "Field; null: the whole job or schedule.",
        "change": "What a sync would do.",
        "code": "Value in the code.",
        "stored": "Value in the database; for `left`, what the schedule does: its state, `shadow`, "
        "`job_disabled` or `job_deleted`.",
        "changed_by": "Who changed it.",
        "changed_at": "When it was changed.",
    },
    {
        "kind": "job",
        "name": "send_welcome",
        "job": "send_welcome",
        "field": "priority",
        "change": "kept",
        "code": 5,
        "stored": 1,
        "changed_by": "cli:ada",
        "changed_at": _AT,
    },
)


SyncedView = view(
    Synced,
    "Synced",
    {
        "written": "Names of the jobs that were written.",
        "deleted": "Names of the jobs that were marked because the code no longer declares them.",
        "schedules": "Number of schedules of `app.schedule` that were written.",
        "queues": "Number of queues that were written.",
    },
    {"written": ["send_welcome"], "deleted": [], "schedules": 1, "queues": 0},
)


_Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]
_Count = Annotated[int, Field(ge=1, le=MOST_COUNT)]


class Kept(Body):
    """Retention of finished runs and their log lines; null: as configured."""

    model_config = examples({"days": 90, "failed_days": 365})

    days: _Days | None = Field(default=None, description="Days to keep runs.")
    count: _Count | None = Field(default=None, description="Number of newest runs to keep.")
    failed_days: _Days | None = Field(default=None, description="Days to keep failed runs.")
    failed_count: _Count | None = Field(
        default=None, description="Number of newest failed runs to keep."
    )
    log_days: _Days | None = Field(default=None, description="Days to keep log lines.")
    log_count: _Count | None = Field(
        default=None, description="Number of newest log lines to keep."
    )
    failed_log_days: _Days | None = Field(
        default=None, description="Days to keep log lines of failed runs."
    )


class JobChanges(ChangeBody):
    """Settings to override; others keep their values."""

    model_config = examples({"priority": 1, "reason": "the campaign is today"})

    description: str | None = Field(default=None, max_length=10_000, description="What it does.")
    queue: str | None = Field(
        default=None, min_length=1, max_length=100, description="Queue of its runs."
    )
    priority: int | None = Field(default=None, ge=0, le=9, description="Lower runs first.")
    max_attempts: int | None = Field(default=None, ge=1, le=100, description="Maximum attempts.")
    timeout_seconds: Seconds | None = Field(
        default=None, ge=0.001, le=31_536_000, description="Timeout of each attempt."
    )
    backoff: dict[str, Any] | str | None = Field(
        default=None, description="Retry backoff: a name, or an object with parameters."
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=100, description="Tags."
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Custom metadata.")
    default_payload: Payload | None = Field(default=None, description="Default payload.")
    events: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = Field(
        default=None, max_length=100, description="Events that start it: names and patterns."
    )
    event_filters: dict[str, dict[str, Any]] | None = Field(
        default=None, description="Payload filters by event."
    )
    event_delivery: dict[str, Any] | None = Field(
        default=None,
        description="Debounce or throttle events: debounce_seconds (with longest_seconds) or "
        "throttle_seconds, and a key template; null: every event starts a run.",
    )
    log_level: Literal["debug", "info", "warning", "error", "critical"] | None = Field(
        default=None, description="Minimum level of stored log lines; null: as configured."
    )
    retention: Kept | None = Field(
        default=None,
        description="Retention of its runs and logs; null: as configured. A longer retention "
        "applies to runs that finish from now on.",
    )
    delay_seconds: Seconds | None = Field(
        default=None,
        ge=0,
        le=3_153_600_000,
        description="Delay of runs that are enqueued without one; null: none.",
    )
    expires_in_seconds: Seconds | None = Field(
        default=None,
        ge=0.001,
        le=3_153_600_000,
        description="Cancel runs that have not started this long after they may; null: never.",
    )
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Template of the idempotency key of its runs, e.g. `invoice:{invoice_id}`; "
        "null: none.",
    )
    tenant: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Tenant of runs that are enqueued without one; null: none.",
    )
    function_name: str | None = Field(
        default=None, min_length=1, max_length=1000, description="SQL jobs: function to call."
    )
    run_as: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        description="SQL jobs: role to run as; null: the role of the workers.",
    )
    transaction_mode: Literal["whole", "none"] | None = Field(
        default=None, description="SQL jobs: `none` for a procedure that commits by itself."
    )
    reset: bool | Annotated[list[Editable], Len(0, 100)] = Field(
        default=False,
        description="Fields to reset to the values in the code; true: all of them.",
    )
    reason: Reason = None


# Fields for which null has a meaning; the others need a value.
CLEARABLE = frozenset(
    {"timeout_seconds", "default_payload", "log_level", "retention", "reason", "event_delivery"}
    | {"delay_seconds", "expires_in_seconds", "key", "tenant", "run_as"}
)


class NewJob(Body):
    """A job that calls a SQL function."""

    model_config = examples(
        {"name": "close_orders", "function_name": "public.close_orders", "queue": "night"}
    )

    name: str = Field(min_length=1, max_length=200, description="Job name.")
    function_name: str = Field(
        min_length=1, max_length=1000, description="Function to call, with its schema."
    )
    run_as: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        description="Role to run as. Default: the role of the workers.",
    )
    transaction_mode: Literal["whole", "none"] = Field(
        default="whole", description="`none` for a procedure that commits by itself."
    )
    description: str = Field(default="", max_length=10_000, description="What it does.")
    queue: str = Field(
        default="default", min_length=1, max_length=100, description="Queue of its runs."
    )
    priority: int = Field(default=5, ge=0, le=9, description="Lower runs first.")
    max_attempts: int = Field(default=3, ge=1, le=100, description="Maximum attempts.")
    timeout_seconds: Seconds | None = Field(
        default=None, ge=0.001, le=31_536_000, description="Timeout of each attempt."
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=100, description="Tags."
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description="Custom metadata.")
    default_payload: Payload | None = Field(default=None, description="Default payload.")
    events: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list, max_length=100, description="Events that start it."
    )
    reason: Reason = None


FunctionView = view(
    JobFunction,
    "JobFunction",
    {
        "function_name": "Name with its schema; with argument types if others have that name.",
        "arguments": "Its arguments.",
        "kind": "A function, or a procedure.",
        "transaction_mode": "`transaction_mode` of a job that calls it.",
        "owner": "Its owner.",
        "description": "Its comment.",
        "jobs": "Jobs that call it.",
    },
    {
        "function_name": "public.close_orders", "arguments": "payload jsonb", "kind": "function",
        "transaction_mode": "whole", "owner": "shop", "description": "", "jobs": [],
    },
)  # fmt: skip


class JobAction(Body):
    """Reason for the action."""

    model_config = examples({"reason": "the mail provider is down"})

    reason: Reason = None


class RenameRequest(Body):
    """The new name of a job."""

    model_config = examples({"new_name": "send_greeting", "reason": "renamed in release 2"})

    new_name: str = Field(min_length=1, max_length=200, description="The new name.")
    reason: Reason = None


class Renamed(Body):
    """The job under its new name."""

    model_config = examples({"name": "send_greeting", "moved_runs": 12})

    name: str = Field(description="The new name.")
    moved_runs: int = Field(description="How many unfinished runs were moved.")


class SyncRequest(Body):
    """Operator changes to overwrite."""

    model_config = examples({"force": ["send_welcome"]})

    force: (
        bool | Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Len(0, 1000)]
    ) = Field(
        default=False,
        description="Jobs to reset to the code, overwriting operator changes; true: all of them.",
    )
