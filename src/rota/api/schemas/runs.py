"""Runs and attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from rota.api.schemas.values import Instant, KeySeconds, Payload, Reason, Seconds
from rota.api.schemas.views import Body, examples, list_of, page, view
from rota.model.attempt import AttemptInfo
from rota.model.details import Handled, RunDetails
from rota.model.log import LogLine
from rota.model.run import RunInfo
from rota.model.states import AttemptState
from rota.model.states import RunState as RunState

_AT = "2026-03-08T09:00:00Z"
RUN_EXAMPLE: dict[str, Any] = {
    "id": 42, "job": "send_welcome", "queue": "mail", "state": "failed", "priority": 5,
    "payload": {"user_id": 7}, "run_at": _AT, "attempt": 3, "max_attempts": 3,
    "key": "welcome-7", "tenant": "", "tags": ["mail"], "metadata": {"team": "growth"},
    "schedule": None, "scheduled_for": None, "triggered_by": {"type": "code"}, "worker": 3,
    "last_error": "SMTPServerDisconnected: connection lost", "message": None, "result": None,
    "created_at": _AT, "started_at": _AT, "finished_at": "2026-03-08T09:00:31Z",
    "duration_ms": 214.5, "expires_at": None, "end_reason": "attempts used up",
    "attempts_used": 3, "progress": None, "held_by": None, "enqueued_at": _AT,
    "error_group": None,
}  # fmt: skip

RunView = view(
    RunInfo,
    "Run",
    {
        "id": "Run ID; never reused.",
        "job": "Job.",
        "queue": "Queue.",
        "state": "Current state.",
        "priority": "Lower runs first.",
        "payload": "Payload passed to the handler.",
        "run_at": "Earliest start time.",
        "attempt": "The number of the last attempt; 0 before the first.",
        "max_attempts": "Maximum attempts.",
        "key": "Idempotency key.",
        "tenant": "Tenant.",
        "tags": "Tags.",
        "metadata": "Custom metadata.",
        "schedule": "Schedule that created it.",
        "scheduled_for": "Scheduled time that it was created for.",
        "triggered_by": "What triggered it, and who.",
        "worker": "Current or last worker.",
        "last_error": "Error of the last failed attempt.",
        "message": "Last progress message of the handler.",
        "result": "What the handler returned.",
        "created_at": "When it was enqueued.",
        "started_at": "Start of its last attempt.",
        "finished_at": "End time.",
        "duration_ms": "Duration of its last attempt.",
        "expires_at": "The run is cancelled if it has not started by then.",
        "end_reason": "Why it ended.",
        "attempts_used": "Number of attempts used.",
        "progress": "Progress reported by the handler, from 0 to 1.",
        "held_by": "What holds it back while queued.",
        "enqueued_at": "When it was last queued.",
        "error_group": "The group that its last error belongs to: see `/errors`.",
    },
    RUN_EXAMPLE,
    state=RunState,
)
RunPage = page(
    RunView,
    searched_to=(
        datetime | None,
        Field(
            description="Where a search that reached its time limit stopped: the next page may "
            "have runs even if this one is empty."
        ),
    ),
)

ATTEMPT_EXAMPLE: dict[str, Any] = {
    "run_id": 42, "attempt": 3, "state": "failed", "worker": 3, "started_at": _AT,
    "finished_at": "2026-03-08T09:00:31Z", "duration_ms": 214.5, "message": None, "details": None,
    "error_type": "SMTPServerDisconnected", "error": "connection lost", "traceback": None,
    "is_redelivery": False, "is_spent": True,
}  # fmt: skip
AttemptView = view(
    AttemptInfo,
    "Attempt",
    {
        "run_id": "Run of this attempt.",
        "attempt": "Attempt number; numbers within a run always increase.",
        "state": "State of the attempt.",
        "worker": "Worker that ran it.",
        "started_at": "Start time.",
        "finished_at": "End time.",
        "duration_ms": "Duration.",
        "message": "Last progress message.",
        "details": "Details returned by a SQL job.",
        "error_type": "Error type.",
        "error": "The error.",
        "traceback": "Traceback.",
        "is_redelivery": "Whether an earlier attempt was lost with its worker.",
        "is_spent": "Whether it counts against `max_attempts`; null while it runs.",
    },
    ATTEMPT_EXAMPLE,
    state=AttemptState,
)
AttemptPage = page(AttemptView)
LINE_EXAMPLE: dict[str, Any] = {
    "at": _AT, "run_id": 42, "attempt": 3, "seq": 1, "worker": 3, "level": "info",
    "message": "sending", "fields": {"user": 7}, "job": "send_welcome", "tenant": "",
}  # fmt: skip
LogLineView = view(
    LogLine,
    "LogLine",
    {
        "at": "When it was written.",
        "run_id": "The run that wrote it.",
        "attempt": "The attempt that wrote it.",
        "seq": "Its number within the attempt.",
        "worker": "Worker that wrote it.",
        "level": "debug, info, warning, error or critical.",
        "message": "The text.",
        "fields": "Structured fields.",
        "job": "The job of the run.",
        "tenant": "Tenant of the run.",
    },
    LINE_EXAMPLE,
)
LogPage = page(
    LogLineView,
    searched_back_to=(
        datetime | None,
        Field(description="How far back the search got; it continues from here."),
    ),
)
HandledView = view(
    Handled,
    "Handled",
    {
        "handled_at": "When it was handled.",
        "handled_by": "Who handled it.",
        "reason": "Reason given.",
    },
    {"handled_at": _AT, "handled_by": "api:ada", "reason": "refunded by hand"},
)
RunDetailsView = view(
    RunDetails,
    "RunDetails",
    {
        "run": "The run.",
        "attempts": "Its attempts, first one first.",
        "logs": "Its most recent log lines, in order.",
        "isolation": "If a worker was lost with it: whether it waits to run in isolation, or "
        "where it does, in a separate process or in its worker's.",
        "handled": "Dead letters: who handled it, or its error group.",
    },
    {
        "run": RUN_EXAMPLE,
        "attempts": [ATTEMPT_EXAMPLE],
        "logs": [LINE_EXAMPLE],
        "isolation": None,
        "handled": None,
    },
    run=RunView,
    attempts=list_of(AttemptView),
    logs=list_of(LogLineView),
    handled=HandledView | None,
)


class NewRun(Body):
    """Run to enqueue. Fields not given default to the job's settings."""

    model_config = examples(
        {
            "job": "send_welcome",
            "payload": {"user_id": 7},
            "delay_seconds": 60,
            "priority": 1,
        }
    )

    job: str = Field(min_length=1, max_length=200, description="Job to run.")
    payload: Payload | None = Field(
        default=None,
        description="Payload passed to the handler. Default: the job's default payload.",
    )
    queue: str | None = Field(
        default=None, min_length=1, max_length=100, description="Queue. Default: the job's."
    )
    priority: int | None = Field(default=None, ge=0, le=9, description="Lower runs first.")
    delay_seconds: Seconds | None = Field(
        default=None, ge=0, le=3_153_600_000, description="Delay before the run may start."
    )
    run_at: Instant | None = Field(default=None, description="Earliest start time.")
    expires_at: Instant | None = Field(
        default=None, description="Cancel the run if it has not started by this time."
    )
    expires_in_seconds: Seconds | None = Field(
        default=None,
        ge=0.001,
        le=3_153_600_000,
        description="Alternatively: cancel it if it has not started this long after it may.",
    )
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        description="Idempotency key: an unfinished run with this key is returned instead.",
    )
    key_seconds: KeySeconds = Field(
        default=None,
        description="How long the key stays reserved after its run ends. For `debounce`, the "
        "maximum wait; for `throttle`, the period.",
    )
    on_conflict: Literal["return", "raise", "replace", "debounce", "throttle"] | None = Field(
        default=None, description="What to do if an unfinished run holds the key."
    )
    tenant: str | None = Field(
        default=None, max_length=200, description="Tenant. Default: the job's."
    )
    max_attempts: int | None = Field(default=None, ge=1, le=100, description="Maximum attempts.")
    timeout_seconds: Seconds | None = Field(
        default=None,
        ge=0.001,
        le=31_536_000,
        description="Timeout of each attempt.",
    )
    backoff: dict[str, Any] | str | None = Field(
        default=None,
        description="Retry backoff: a name, or an object with parameters.",
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=100, description="Tags."
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Custom metadata.")


class Enqueued(Body):
    """The enqueued run, or the run that already holds its key."""

    model_config = examples({"run_id": 42, "job": "send_welcome", "is_duplicate": False})

    run_id: int = Field(description="Run ID.")
    job: str = Field(description="Job.")
    is_duplicate: bool = Field(
        description="Whether an existing run with the same key was returned."
    )


class Cancellation(Body):
    """Reason for the action."""

    model_config = examples({"reason": "sent twice"})

    reason: Reason = None


class Cancelled(Body):
    """Result of the cancellation."""

    model_config = examples({"run_id": 42, "result": "cancelled"})

    run_id: int = Field(description="The run.")
    result: Literal["cancelled", "requested"] = Field(
        description="`cancelled`, or `requested`: it is running, and its worker was asked to stop."
    )


class DeletedRun(Body):
    """The deleted run."""

    model_config = examples({"run_id": 42})

    run_id: int = Field(description="The run.")


class Retrial(Body):
    """Options of a retry."""

    model_config = examples({"payload": {"user_id": 8}, "reason": "wrong user"})

    payload: Payload | None = Field(default=None, description="Replacement payload.")
    delay_seconds: Seconds | None = Field(
        default=None, ge=0, le=3_153_600_000, description="Delay before the run may start."
    )
    reason: Reason = None
