"""Tenants: settings, counts, statistics."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rota.api.schemas.values import Reason
from rota.api.schemas.views import Body, examples, page, view
from rota.model.tenant import TenantDay, TenantInfo, TenantRemoval, TenantStats

_AT = "2026-03-08T09:00:00Z"
_TENANT: dict[str, Any] = {
    "name": "acme", "has_settings": True, "weight": 2.0, "max_waiting": 10_000,
    "max_runs_per_day": None, "max_bytes_per_day": None, "retention_days": 7,
    "failed_retention_days": None, "is_paused": False, "paused_at": None, "paused_by": None,
    "pause_reason": None, "paused_until": None, "description": "", "metadata": {"plan": "gold"},
    "version": 3, "schedules": 4, "blocked": 0, "scheduled": 12, "queued": 340, "held": 0,
    "running": 16, "oldest_seconds": 4.2, "counted_seconds": 2.5, "enqueued_today": 0,
    "bytes_today": 0, "succeeded_today": 5210, "failed_today": 17,
}  # fmt: skip
_DAY: dict[str, Any] = {
    "day": "2026-03-08", "enqueued": 0, "bytes": 0, "succeeded": 5210, "failed": 17, "other": 2,
    "seconds": 812.5,
}  # fmt: skip
TenantView = view(
    TenantInfo,
    "Tenant",
    {
        "name": "Its name.",
        "has_settings": "Whether anything differs from the defaults.",
        "weight": "Its share of the workers beside other tenants.",
        "max_waiting": "Most runs that it may have waiting; null: any number.",
        "max_runs_per_day": "Most runs that it may enqueue a day (UTC).",
        "max_bytes_per_day": "Most bytes of payloads that it may enqueue a day.",
        "retention_days": "Its ended runs go after so many days, if not sooner.",
        "failed_retention_days": "Its failed runs go after so many days, if not sooner.",
        "is_paused": "Whether nothing of it starts.",
        "paused_at": "Since when.",
        "paused_by": "By whom.",
        "pause_reason": "Why.",
        "paused_until": "It goes on by itself then.",
        "description": "What somebody wrote about it.",
        "metadata": "What somebody keeps with it.",
        "version": "Rises with each change of its settings.",
        "schedules": "How many schedules it has.",
        "blocked": "Runs that wait for others.",
        "scheduled": "Runs that wait for their time.",
        "queued": "Runs that wait for a worker.",
        "held": "Of those, how many something holds back.",
        "running": "Runs that a worker has.",
        "oldest_seconds": "How long the oldest has waited that a worker may take.",
        "counted_seconds": "How old the counts of open runs are.",
        "enqueued_today": "Runs enqueued today; counted where a quota asks for it.",
        "bytes_today": "Bytes of payloads enqueued today; counted where a quota asks for it.",
        "succeeded_today": "Attempts that succeeded today (UTC).",
        "failed_today": "Attempts that failed today.",
    },
    _TENANT,
)
TenantPage = page(TenantView)
TenantDayView = view(
    TenantDay,
    "TenantDay",
    {
        "day": "In UTC.",
        "enqueued": "Runs enqueued; counted where a quota asks for it.",
        "bytes": "Bytes of their payloads.",
        "succeeded": "Attempts that succeeded.",
        "failed": "Attempts that failed, timed out or were lost.",
        "other": "Attempts that were cancelled or snoozed.",
        "seconds": "How long all of them took together.",
    },
    _DAY,
)
TenantStatsView = view(
    TenantStats,
    "TenantStats",
    {
        "tenant": "The tenant.",
        "days": "The last month, the newest day first.",
        "recent": "How many of its last runs were looked at: a thousand at most.",
        "recent_failed": "How many of them failed.",
        "median_seconds": "How long their last attempts took: half of them less.",
        "p95_seconds": "How long: 95 of 100 less.",
    },
    {
        "tenant": _TENANT, "days": [_DAY], "recent": 1000, "recent_failed": 3,
        "median_seconds": 0.12, "p95_seconds": 1.8,
    },
    tenant=TenantView,
    days=list[TenantDayView],  # type: ignore[valid-type]
)  # fmt: skip
TenantRemovalView = view(
    TenantRemoval,
    "TenantRemoval",
    {
        "name": "The tenant.",
        "is_done": "Whether all of it is gone. If not, ask again: it goes on.",
        "removed": "How many rows were removed by this request, by table.",
    },
    {"name": "acme", "is_done": True, "removed": {"open_runs": 3, "ended_runs": 5210}},
)
_MOST = 10**15


class TenantChanges(Body):
    """What is sent changes; null is the default."""

    model_config = examples({"weight": 2, "max_waiting": 10_000, "reason": "they pay for it"})

    weight: float | None = Field(
        default=None, ge=0.01, le=1000, description="Its share beside other tenants."
    )
    max_waiting: int | None = Field(
        default=None, ge=0, le=10**9, description="Most runs that may wait."
    )
    max_runs_per_day: int | None = Field(
        default=None, ge=0, le=10**12, description="Most runs that it may enqueue a day."
    )
    max_bytes_per_day: int | None = Field(
        default=None, ge=0, le=_MOST, description="Most bytes of payloads a day."
    )
    retention_days: int | None = Field(
        default=None, ge=1, le=36_500, description="Its ended runs go after that."
    )
    failed_retention_days: int | None = Field(
        default=None, ge=1, le=36_500, description="Its failed runs go after that."
    )
    description: str | None = Field(default=None, max_length=10_000, description="Words.")
    metadata: dict[str, Any] | None = Field(default=None, description="A JSON object.")
    reason: Reason = None


class TenantAction(Body):
    """Why."""

    model_config = examples({"reason": "paid"})

    reason: Reason = None
