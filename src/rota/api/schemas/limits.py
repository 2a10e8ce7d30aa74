"""Limits."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rota.api.schemas.values import Reason, Seconds
from rota.api.schemas.views import Body, ChangeBody, examples, list_of, page, view
from rota.model.limit import (
    MOST,
    LimitDetails,
    LimitInfo,
    LimitKey,
    LimitKind,
    LimitRun,
    NextAfter,
    OnFull,
)

_AT = "2026-03-08T09:00:00Z"
EXAMPLE: dict[str, Any] = {
    "name": "per-customer",
    "tenant": "",
    "kind": "concurrency",
    "cap": 5,
    "period_seconds": None,
    "burst": None,
    "cost": None,
    "next_after": None,
    "on_full": "wait",
    "queue": None,
    "jobs": ["sync_orders"],
    "schedule": None,
    "key": "customer:{customer_id}",
    "in_use": 12,
    "waiting": 340,
    "keys": 3,
    "full": 2,
    "admitted": 48210,
    "is_declared": True,
    "is_edited": False,
    "updated_at": _AT,
    "updated_by": "code:shop.jobs",
}
_KEY: dict[str, Any] = {
    "value": "customer:7", "in_use": 5, "waiting": 338, "wait_until": None, "blocked_by": None,
}  # fmt: skip
_RUN: dict[str, Any] = {
    **{"id": 4711, "job": "sync_orders", "queue": "default", "state": "running"},
    **{"value": "customer:7", "since": _AT, "worker": 3},
}
LimitView = view(
    LimitInfo,
    "Limit",
    {
        "name": "Name.",
        "tenant": "Tenant it applies to; empty: all tenants together.",
        "kind": "Concurrency, rate or sequence.",
        "cap": "Maximum number of runs.",
        "period_seconds": "Rate limits: period in seconds.",
        "burst": "Rate limits: maximum burst.",
        "cost": "Rate limits: payload field that holds the cost of a run.",
        "next_after": "Sequences: whether the next run requires the previous one to succeed.",
        "on_full": "Policy for a run when the limit is full.",
        "queue": "Only runs of this queue.",
        "jobs": "Only runs of these jobs.",
        "schedule": "Only runs of this schedule.",
        "key": "Count separately for each value of this template.",
        "in_use": "Runs that hold a slot, across all counters.",
        "waiting": "Runs waiting for a slot, counted up to 10,000.",
        "keys": "Number of counters.",
        "full": "Number of full counters.",
        "admitted": "Number of runs admitted since its counters were created.",
        "is_declared": "Whether the code declares it.",
        "is_edited": "Whether an operator has overridden the code.",
        "updated_at": "When it was changed last.",
        "updated_by": "Who changed it last.",
    },
    EXAMPLE,
)
LimitPage = page(LimitView)
LimitKeyView = view(
    LimitKey,
    "LimitKey",
    {
        "value": "The value of the key; empty without one.",
        "in_use": "Runs that hold a slot.",
        "waiting": "Runs waiting for a slot, counted up to 1,000.",
        "wait_until": "Rate limits: when an exhausted limit has room again.",
        "blocked_by": "Sequences: failed run whose success it waits for.",
    },
    _KEY,
)
LimitRunView = view(
    LimitRun,
    "LimitRun",
    {
        "id": "The run.",
        "job": "Its job.",
        "queue": "Its queue.",
        "state": "Its state.",
        "value": "Value of the key.",
        "since": "Since when it has been running or waiting.",
        "worker": "Worker that has it.",
    },
    _RUN,
)
LimitDetailsView = view(
    LimitDetails,
    "LimitDetails",
    {
        "limit": "The limit.",
        "keys": "Its counters, those with waiting runs first; up to 100.",
        "holders": "Runs that hold a slot, oldest first; up to 100.",
        "waiters": "Runs waiting for a slot, in order; up to 100.",
    },
    {"limit": EXAMPLE, "keys": [_KEY], "holders": [_RUN], "waiters": [_RUN]},
    limit=LimitView,
    keys=list_of(LimitKeyView),
    holders=list_of(LimitRunView),
    waiters=list_of(LimitRunView),
)


class SetLimit(ChangeBody):
    """Fields to set; others keep their values, and null removes a value."""

    model_config = examples({"queue": "mail", "cap": 5, "reason": "the provider asked for it"})

    kind: LimitKind | None = Field(
        None, description="Kind of limit. Default for a new limit: `concurrency`."
    )
    cap: int | None = Field(
        None, ge=0, le=MOST, description="Maximum number of runs. 0: nothing starts."
    )
    period_seconds: Seconds | None = Field(
        None, ge=0.01, le=31_536_000, description="Rate limits: period in seconds."
    )
    burst: int | None = Field(None, ge=1, le=MOST, description="Rate limits: maximum burst.")
    cost: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Rate limits: payload field that holds the cost of a run.",
    )
    next_after: NextAfter | None = Field(
        None, description="Sequences: start the next run after `success` or `end`."
    )
    on_full: OnFull | None = Field(None, description="Policy for a run when the limit is full.")
    queue: str | None = Field(
        None, min_length=1, max_length=100, description="Only runs of this queue."
    )
    jobs: list[str] | None = Field(
        None, min_length=1, max_length=1000, description="Only runs of these jobs."
    )
    schedule: str | None = Field(
        None, min_length=1, max_length=200, description="Only runs of this schedule."
    )
    key: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Count separately for each value of this template.",
    )
    reason: Reason = None


class UnblockLimit(Body):
    """Counter to unblock."""

    model_config = examples({"value": "order:7", "reason": "mended by hand"})

    value: str | None = Field(
        None, max_length=300, description="Unblock only the counter with this value; null: all."
    )
    reason: Reason = None


class LimitRemoval(Body):
    """Result of the removal."""

    model_config = examples({"result": "removed"})

    result: str = Field(description="`removed`, or `reset`: the code's values apply again.")


class Unblocked(Body):
    """Number of unblocked counters."""

    model_config = examples({"unblocked": 1})

    unblocked: int = Field(description="Number of unblocked counters.")
