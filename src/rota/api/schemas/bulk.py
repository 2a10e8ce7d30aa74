"""Actions on many runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rota.api.operations import object_of
from rota.api.schemas.values import BIGGEST_ID, Payload, Reason, Seconds
from rota.api.schemas.views import Body, examples, page, view_of
from rota.model.bulk import BulkResult
from rota.model.bulk_action import BulkAction
from rota.model.run_counts import RunCounts
from rota.model.run_filter import RunFilters

MOST = 10_000
Verb = Literal["retry", "cancel", "delete"]
Filter = object_of(RunFilters)


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
    filter: Filter = Field(  # type: ignore[valid-type]
        description="Filter that selects the runs; must not be empty."
    )


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
