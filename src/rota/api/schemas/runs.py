"""Runs and attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from rota.api.schemas.values import Instant, KeySeconds, Payload, Reason, Seconds
from rota.api.schemas.views import Body, examples, page, view_of
from rota.model.attempt import AttemptInfo
from rota.model.details import RunDetails
from rota.model.log import LogLine
from rota.model.run import RunInfo
from rota.model.states import RunState as RunState

RunView = view_of(RunInfo)
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

AttemptView = view_of(AttemptInfo)
AttemptPage = page(AttemptView)
LogLineView = view_of(LogLine)
LogPage = page(
    LogLineView,
    searched_back_to=(
        datetime | None,
        Field(description="How far back the search got; it continues from here."),
    ),
)
RunDetailsView = view_of(RunDetails)


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


class Retrial(Body):
    """Options of a retry."""

    model_config = examples({"payload": {"user_id": 8}, "reason": "wrong user"})

    payload: Payload | None = Field(default=None, description="Replacement payload.")
    delay_seconds: Seconds | None = Field(
        default=None, ge=0, le=3_153_600_000, description="Delay before the run may start."
    )
    reason: Reason = None
