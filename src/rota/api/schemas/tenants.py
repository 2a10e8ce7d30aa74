"""Tenants: settings, counts, statistics."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rota.api.schemas.values import Reason
from rota.api.schemas.views import Body, ChangeBody, examples, list_of, page, view
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
        "name": "Name.",
        "has_settings": "Whether anything differs from the defaults.",
        "weight": "Weight of its share of the workers among tenants.",
        "max_waiting": "Maximum number of waiting runs; null: no limit.",
        "max_runs_per_day": "Maximum runs enqueued per day (UTC).",
        "max_bytes_per_day": "Maximum payload bytes enqueued per day.",
        "retention_days": "Maximum days to keep its finished runs.",
        "failed_retention_days": "Maximum days to keep its failed runs.",
        "is_paused": "Whether the tenant is paused.",
        "paused_at": "Since when it is paused.",
        "paused_by": "Who paused it.",
        "pause_reason": "Why it is paused.",
        "paused_until": "When it resumes automatically.",
        "description": "Description.",
        "metadata": "Custom metadata.",
        "version": "Incremented with each change of its settings.",
        "schedules": "Number of schedules.",
        "blocked": "Runs waiting for other runs.",
        "scheduled": "Runs waiting for their start time.",
        "queued": "Runs waiting for a worker.",
        "held": "Queued runs that are held back.",
        "running": "Runs claimed by a worker.",
        "oldest_seconds": "Age of the oldest run that a worker may take.",
        "counted_seconds": "Age of the counts of unfinished runs.",
        "enqueued_today": "Runs enqueued today; counted only if there is a quota.",
        "bytes_today": "Payload bytes enqueued today; counted only if there is a quota.",
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
        "day": "Day, in UTC.",
        "enqueued": "Runs enqueued; counted only if there is a quota.",
        "bytes": "Bytes of their payloads.",
        "succeeded": "Attempts that succeeded.",
        "failed": "Attempts that failed, timed out or were lost.",
        "other": "Attempts that were cancelled or snoozed.",
        "seconds": "Total duration of the attempts, in seconds.",
    },
    _DAY,
)
TenantStatsView = view(
    TenantStats,
    "TenantStats",
    {
        "tenant": "The tenant.",
        "days": "The last month, newest day first.",
        "recent": "Number of recent runs examined, up to 1,000.",
        "recent_failed": "How many of them failed.",
        "median_seconds": "Median duration of their last attempts.",
        "p95_seconds": "95th percentile of the duration.",
    },
    {
        "tenant": _TENANT, "days": [_DAY], "recent": 1000, "recent_failed": 3,
        "median_seconds": 0.12, "p95_seconds": 1.8,
    },
    tenant=TenantView,
    days=list_of(TenantDayView),
)  # fmt: skip
TenantRemovalView = view(
    TenantRemoval,
    "TenantRemoval",
    {
        "name": "The tenant.",
        "is_done": "Whether the deletion is complete. If not, repeat the request.",
        "removed": "Rows deleted by this request, by table.",
    },
    {"name": "acme", "is_done": True, "removed": {"open_runs": 3, "ended_runs": 5210}},
)
_MOST = 10**15


class TenantChanges(ChangeBody):
    """Settings to change; null restores the default."""

    model_config = examples({"weight": 2, "max_waiting": 10_000, "reason": "they pay for it"})

    weight: float | None = Field(
        default=None, ge=0.01, le=1000, description="Weight of its share among tenants."
    )
    max_waiting: int | None = Field(
        default=None, ge=0, le=10**9, description="Maximum number of waiting runs."
    )
    max_runs_per_day: int | None = Field(
        default=None, ge=0, le=10**12, description="Maximum runs enqueued per day."
    )
    max_bytes_per_day: int | None = Field(
        default=None, ge=0, le=_MOST, description="Maximum payload bytes enqueued per day."
    )
    retention_days: int | None = Field(
        default=None, ge=1, le=36_500, description="Maximum days to keep its finished runs."
    )
    failed_retention_days: int | None = Field(
        default=None, ge=1, le=36_500, description="Maximum days to keep its failed runs."
    )
    description: str | None = Field(default=None, max_length=10_000, description="Description.")
    metadata: dict[str, Any] | None = Field(
        default=None, description="Custom metadata, as a JSON object."
    )
    reason: Reason = None


class TenantAction(Body):
    """Reason for the action."""

    model_config = examples({"reason": "paid"})

    reason: Reason = None
