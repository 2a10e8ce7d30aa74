"""One action on many runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.api.schemas.runs import RunState
from rota.api.schemas.values import BIGGEST_ID, Instant, Payload, Reason
from rota.api.schemas.views import Body, examples, view
from rota.model.bulk import BulkItem, BulkResult

MOST = 10_000
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
    since: Instant | None = Field(default=None, description="Created at this time or later.")
    until: Instant | None = Field(default=None, description="Created before this time.")
    dead: bool | None = Field(default=None, description="That used up their attempts.")


class BulkRequest(Body):
    """Either ids or a filter."""

    model_config = examples(
        {"ids": [42, 43], "reason": "sent twice"},
        {"filter": {"job": "send_welcome"}, "dry_run": True},
    )

    ids: list[Annotated[int, Field(ge=1, le=BIGGEST_ID)]] | None = Field(
        default=None, min_length=1, max_length=MOST, description="These runs."
    )
    filter: Filter | None = Field(default=None, description="Those that fit.")
    limit: int = Field(default=1000, ge=1, le=MOST, description="At most so many by a filter.")
    dry_run: bool = Field(default=False, description="Only say what would be done.")
    reason: Reason = None


class BulkRetrial(BulkRequest):
    """Either ids or a filter; and what to run them with."""

    model_config = examples({"filter": {"dead": True, "job": "send_welcome"}, "dry_run": True})

    payload: Payload | None = Field(default=None, description="Instead of that of each.")
    delay_seconds: float | None = Field(
        default=None, ge=0, le=3_153_600_000, description="Not before so long from now."
    )


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
        "has_more": "The limit was reached: the filter may fit more.",
        "items": "Each run.",
    },
    {
        "action": "cancel",
        "is_dry_run": False,
        "done": 1,
        "refused": 1,
        "has_more": False,
        "items": _ITEMS,
    },
    items=list[BulkItemView],  # type: ignore[valid-type]
)
