"""Actions on many runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.api.schemas.runs import RunState
from rota.api.schemas.values import BIGGEST_ID, Instant, Payload, Reason, Seconds
from rota.api.schemas.views import Body, examples, page, view_of
from rota.model.bulk import BulkResult
from rota.model.bulk_action import BulkAction
from rota.model.run_counts import RunCounts

MOST = 10_000
Verb = Literal["retry", "cancel", "delete"]


class Filter(Body):
    """Filter for runs: a run must match all given fields."""

    model_config = examples({"job": "send_welcome", "states": ["failed"]})

    states: list[RunState] | None = Field(
        default=None, min_length=1, max_length=7, description="Filter by state."
    )
    job: str | None = Field(default=None, max_length=200, description="Filter by job.")
    queue: str | None = Field(default=None, max_length=100, description="Filter by queue.")
    tenant: str | None = Field(default=None, max_length=200, description="Filter by tenant.")
    tag: str | None = Field(default=None, max_length=100, description="Filter by tag.")
    key: str | None = Field(default=None, max_length=400, description="Filter by key.")
    schedule: str | None = Field(
        default=None,
        max_length=200,
        description="Only runs of this schedule, also manual runs and backfills.",
    )
    worker: int | None = Field(
        default=None,
        ge=0,
        le=BIGGEST_ID,
        description="Only runs whose current or last worker is this one.",
    )
    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        description="Text in the payload or last error.",
    )
    error: str | None = Field(
        default=None, min_length=1, max_length=400, description="Text in the last error."
    )
    error_group: str | None = Field(
        default=None,
        max_length=40,
        description="Only runs whose last error belongs to this error group.",
    )
    payload_fields: dict[str, Any] | None = Field(
        default=None, max_length=20, description="Payload fields and their values, as text."
    )
    since: Instant | None = Field(default=None, description="Created at this time or later.")
    until: Instant | None = Field(default=None, description="Created before this time.")
    ended_since: Instant | None = Field(default=None, description="Finished at this time or later.")
    ended_until: Instant | None = Field(default=None, description="Finished before this time.")
    dead: bool | None = Field(
        default=None, description="Only dead letters: runs that failed permanently."
    )
    handled: bool | None = Field(
        default=None, description="Only dead letters that are handled (true), or not (false)."
    )


class BatchRequest(Body):
    """Runs to act on."""

    model_config = examples({"ids": [42, 43], "reason": "sent twice"})

    ids: list[Annotated[int, Field(ge=1, le=BIGGEST_ID)]] = Field(
        min_length=1, max_length=MOST, description="Run IDs."
    )
    dry_run: bool = Field(default=False, description="Report what would be done without doing it.")
    reason: Reason = None


class BatchRetrial(BatchRequest):
    """Runs to retry."""

    model_config = examples({"ids": [42, 43], "payload": {"user_id": 7}})

    payload: Payload | None = Field(default=None, description="Replaces the payload of each run.")
    delay_seconds: Seconds | None = Field(
        default=None, ge=0, le=3_153_600_000, description="Delay before the runs may start."
    )


class BulkPreviewRequest(Body):
    """Bulk action to preview."""

    model_config = examples({"verb": "retry", "filter": {"job": "send_welcome", "dead": True}})

    verb: Verb = Field(description="What to do.")
    filter: Filter = Field(description="Filter that selects the runs; must not be empty.")


class BulkRequest(BulkPreviewRequest):
    """Bulk action to start."""

    model_config = examples(
        {
            "verb": "retry",
            "filter": {"job": "send_welcome", "dead": True},
            "rate": 50,
            "reason": "the provider is back",
        }
    )

    payload: Payload | None = Field(
        default=None, description="Retry only: replacement payload; the filter must name the job."
    )
    delay_seconds: Seconds | None = Field(
        default=None,
        ge=0,
        le=3_153_600_000,
        description="Retry only: delay before the runs may start.",
    )
    limit: int | None = Field(
        default=None, ge=1, le=BIGGEST_ID, description="Maximum number of runs."
    )
    rate: float | None = Field(
        default=None, ge=0.01, le=1_000_000, description="Maximum runs per second."
    )
    reason: Reason = None


BulkResultView = view_of(BulkResult)
BulkActionView = view_of(BulkAction)
BulkActionPage = page(BulkActionView)
RunCountsView = view_of(RunCounts)
