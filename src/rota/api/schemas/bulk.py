"""Actions on many runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.api.schemas.runs import RunState
from rota.api.schemas.values import BIGGEST_ID, Instant, Payload, Reason, Seconds
from rota.api.schemas.views import Body, examples, list_of, page, view
from rota.model.bulk import BulkItem, BulkResult
from rota.model.bulk_action import BulkAction
from rota.model.run_counts import RunCount, RunCounts

MOST = 10_000
Verb = Literal["retry", "cancel", "delete"]
_AT = "2026-03-08T09:00:00Z"
_ITEMS: list[dict[str, Any]] = [
    {"id": 42, "outcome": "cancelled", "reason": None},
    {"id": 43, "outcome": "refused", "reason": "run 43 has already ended (succeeded)"},
]


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


class BulkChange(Body):
    """New rate limit."""

    model_config = examples({"rate": 20, "reason": "the provider slows down"}, {"rate": None})

    rate: float | None = Field(
        ge=0.01, le=1_000_000, description="Maximum runs per second; null: no limit."
    )
    reason: Reason = None


class BulkStep(Body):
    """Reason for the action."""

    model_config = examples({"reason": "the provider is down again"})

    reason: Reason = None


BulkItemView = view(
    BulkItem,
    "BulkItem",
    {
        "id": "The run.",
        "outcome": "Outcome, or expected outcome of a dry run.",
        "reason": "Why it was refused.",
    },
    _ITEMS[0],
    outcome=Literal["cancelled", "requested", "retried", "deleted", "refused"],
)
BulkResultView = view(
    BulkResult,
    "BulkResult",
    {
        "action": "Requested action.",
        "is_dry_run": "Whether nothing was done.",
        "done": "Number of runs processed.",
        "refused": "Number of runs refused.",
        "items": "Each run.",
    },
    {
        "action": "cancel",
        "is_dry_run": False,
        "done": 1,
        "refused": 1,
        "items": _ITEMS,
    },
    items=list_of(BulkItemView),
)
BulkActionView = view(
    BulkAction,
    "BulkAction",
    {
        "id": "ID.",
        "verb": "Action.",
        "filter": "Filter that selects the runs, with absolute times.",
        "payload": "Retry only: replacement payload.",
        "delay_seconds": "Retry only: delay.",
        "limit": "Maximum number of runs.",
        "rate": "Maximum runs per second.",
        "actor": "Who started it.",
        "reason": "Reason.",
        "state": "State of the bulk action.",
        "done": "Number of runs processed.",
        "skipped": "Number of runs skipped because they were deleted or had changed state.",
        "failed": "Number of runs that failed.",
        "total": "Number of selected runs counted so far.",
        "is_counted": "Whether counting is complete.",
        "problems": "The first 20 failed runs, with the reason.",
        "error": "Why it is not continuing.",
        "created_at": "When it was started. Runs enqueued later are not affected.",
        "changed_at": "When it last made progress or was changed.",
        "finished_at": "End time.",
        "has_worker": "Whether a live worker is available to carry it out.",
    },
    {
        "id": 7, "verb": "retry", "filter": {"job": "send_welcome", "dead": True},
        "payload": None, "delay_seconds": None, "limit": None, "rate": 50.0, "actor": "ada",
        "reason": "the provider is back", "state": "running", "done": 1200, "skipped": 3,
        "failed": 1, "total": 21638, "is_counted": True,
        "problems": [{"id": 43, "reason": "run 43 cannot be retried: its key is held by run 44"}],
        "error": None, "created_at": _AT, "changed_at": _AT, "finished_at": None,
        "has_worker": True,
    },
)  # fmt: skip
BulkActionPage = page(BulkActionView)
RunCountView = view(
    RunCount,
    "RunCount",
    {"job": "Job.", "state": "State.", "runs": "Number of runs."},
    {"job": "send_welcome", "state": "failed", "runs": 412},
)
RunCountsView = view(
    RunCounts,
    "RunCounts",
    {
        "runs": "Number of matching runs.",
        "is_exact": "Whether the count is exact; otherwise it is a lower bound.",
        "groups": "By job and state.",
        "cursor": "Cursor to continue counting.",
    },
    {
        "runs": 412,
        "is_exact": True,
        "groups": [{"job": "send_welcome", "state": "failed", "runs": 412}],
        "cursor": None,
    },
    groups=list_of(RunCountView),
)
