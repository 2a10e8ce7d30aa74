"""One action on many runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.api.schemas.runs import RunState
from rota.api.schemas.values import BIGGEST_ID, Instant, Payload, Reason
from rota.api.schemas.views import Body, examples, page, view
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
    """Which runs; every part narrows."""

    model_config = examples({"job": "send_welcome", "states": ["failed"]})

    states: list[RunState] | None = Field(
        default=None, min_length=1, max_length=7, description="In these states."
    )
    job: str | None = Field(default=None, max_length=200, description="Of this job.")
    queue: str | None = Field(default=None, max_length=100, description="In this queue.")
    tenant: str | None = Field(default=None, max_length=200, description="Of this tenant.")
    tag: str | None = Field(default=None, max_length=100, description="With this tag.")
    key: str | None = Field(default=None, max_length=400, description="With this key.")
    schedule: str | None = Field(default=None, max_length=200, description="Of this schedule.")
    worker: int | None = Field(
        default=None, ge=0, le=BIGGEST_ID, description="Run by this worker, last or now."
    )
    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        description="With this in the payload or the last error.",
    )
    error: str | None = Field(
        default=None, min_length=1, max_length=400, description="With this in the last error."
    )
    error_group: str | None = Field(
        default=None, max_length=40, description="Whose last error is of this group."
    )
    payload_fields: dict[str, Any] | None = Field(
        default=None, max_length=20, description="With these values in the payload, as text."
    )
    since: Instant | None = Field(default=None, description="Created at this time or later.")
    until: Instant | None = Field(default=None, description="Created before this time.")
    ended_since: Instant | None = Field(default=None, description="Ended at this time or later.")
    ended_until: Instant | None = Field(default=None, description="Ended before this time.")
    dead: bool | None = Field(default=None, description="That failed for good.")
    handled: bool | None = Field(
        default=None, description="That failed for good, and somebody has seen to, or nobody."
    )


class BatchRequest(Body):
    """Which runs, and why."""

    model_config = examples({"ids": [42, 43], "reason": "sent twice"})

    ids: list[Annotated[int, Field(ge=1, le=BIGGEST_ID)]] = Field(
        min_length=1, max_length=MOST, description="These runs."
    )
    dry_run: bool = Field(default=False, description="Only say what would be done.")
    reason: Reason = None


class BatchRetrial(BatchRequest):
    """Which runs, and what to run them with."""

    model_config = examples({"ids": [42, 43], "payload": {"user_id": 7}})

    payload: Payload | None = Field(default=None, description="Instead of that of each.")
    delay_seconds: float | None = Field(
        default=None, ge=0, le=3_153_600_000, description="Not before so long from now."
    )


class BulkPreviewRequest(Body):
    """What would be done to which runs."""

    model_config = examples({"verb": "retry", "filter": {"job": "send_welcome", "dead": True}})

    verb: Verb = Field(description="What to do.")
    filter: Filter = Field(description="Which runs; it must narrow.")


class BulkRequest(BulkPreviewRequest):
    """What to do to which runs, how fast, and why."""

    model_config = examples(
        {
            "verb": "retry",
            "filter": {"job": "send_welcome", "dead": True},
            "rate": 50,
            "reason": "the provider is back",
        }
    )

    payload: Payload | None = Field(
        default=None, description="Of a retry: instead of that of each; the filter names the job."
    )
    delay_seconds: float | None = Field(
        default=None, ge=0, le=3_153_600_000, description="Of a retry: not before so long from now."
    )
    limit: int | None = Field(default=None, ge=1, le=BIGGEST_ID, description="At most so many.")
    rate: float | None = Field(
        default=None, ge=0.01, le=1_000_000, description="At most so many runs a second."
    )
    reason: Reason = None


class BulkChange(Body):
    """How fast it may go on."""

    model_config = examples({"rate": 20, "reason": "the provider slows down"}, {"rate": None})

    rate: float | None = Field(
        ge=0.01, le=1_000_000, description="At most so many runs a second; null: no limit."
    )
    reason: Reason = None


class BulkStep(Body):
    """Why."""

    model_config = examples({"reason": "the provider is down again"})

    reason: Reason = None


BulkItemView = view(
    BulkItem,
    "BulkItem",
    {
        "id": "The run.",
        "outcome": "What was done to it, or would be.",
        "reason": "Why it was refused.",
    },
    _ITEMS[0],
    outcome=Literal["cancelled", "requested", "retried", "deleted", "refused"],
)
BulkResultView = view(
    BulkResult,
    "BulkResult",
    {
        "action": "What was asked for.",
        "is_dry_run": "Whether nothing was done.",
        "done": "How many it was done to.",
        "refused": "How many refused it.",
        "items": "Each run.",
    },
    {
        "action": "cancel",
        "is_dry_run": False,
        "done": 1,
        "refused": 1,
        "items": _ITEMS,
    },
    items=list[BulkItemView],  # type: ignore[valid-type]
)
BulkActionView = view(
    BulkAction,
    "BulkAction",
    {
        "id": "Its number.",
        "verb": "What is done.",
        "filter": "To which runs; times are instants.",
        "payload": "Of a retry: what each runs with instead.",
        "delay_seconds": "Of a retry: how much later.",
        "limit": "At most so many.",
        "rate": "At most so many a second.",
        "actor": "Who started it.",
        "reason": "Why.",
        "state": "Whether it goes on.",
        "done": "Runs that it was done to.",
        "skipped": "Runs that were gone or had changed their state when their turn came.",
        "failed": "Runs that it could not be done to.",
        "total": "How many there are, as far as they have been counted.",
        "is_counted": "Whether that is all of them.",
        "problems": "Of the first twenty that failed: which, and why.",
        "error": "Why it does not go on.",
        "created_at": "When it was started. Runs that came later are not touched.",
        "changed_at": "When it last went on, or was changed.",
        "finished_at": "When it ended.",
        "has_worker": "Whether a live worker is there to carry it out.",
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
    {"job": "Of this job.", "state": "In this state.", "runs": "So many."},
    {"job": "send_welcome", "state": "failed", "runs": 412},
)
RunCountsView = view(
    RunCounts,
    "RunCounts",
    {
        "runs": "How many fit.",
        "is_exact": "Whether that is all of them; else at least so many.",
        "groups": "By job and state.",
        "cursor": "Where counting would go on.",
    },
    {
        "runs": 412,
        "is_exact": True,
        "groups": [{"job": "send_welcome", "state": "failed", "runs": 412}],
        "cursor": None,
    },
    groups=list[RunCountView],  # type: ignore[valid-type]
)
