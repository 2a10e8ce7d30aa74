"""Counts of the present, and statistics of the past."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import list_of, view
from rota.model.stats import Activity, JobActivity, QueueDepth, StateCounts, Stats, Step

_DEPTH: dict[str, Any] = {
    "queue": "mail", "blocked": 0, "scheduled": 12, "queued": 3, "held": 0, "running": 2,
    "oldest_seconds": 1.7,
}  # fmt: skip
_ACTIVITY: dict[str, Any] = {
    "attempts": 120, "succeeded": 117, "failed": 2, "timed_out": 1, "lost": 0, "snoozed": 0,
    "cancelled": 0, "per_second": 0.033, "failure_rate": 0.025, "average_ms": 84.0, "p50_ms": 61.0,
    "p95_ms": 240.0, "p99_ms": 410.0, "longest_ms": 30000.0,
}  # fmt: skip
_STATES: dict[str, Any] = {
    "blocked": 0, "scheduled": 12, "queued": 3, "running": 2, "succeeded": 4711, "failed": 3,
    "cancelled": 1,
}  # fmt: skip

StatesView = view(
    StateCounts,
    "StateCounts",
    {
        "blocked": "Runs waiting for parents.",
        "scheduled": "Runs waiting for their start time.",
        "queued": "Runs waiting for a worker, including held ones.",
        "running": "Runs claimed by a worker.",
        "succeeded": "Succeeded runs since counting began.",
        "failed": "Failed runs since counting began.",
        "cancelled": "Cancelled runs since counting began.",
    },
    _STATES,
)
DepthView = view(
    QueueDepth,
    "QueueDepth",
    {
        "queue": "Name.",
        "blocked": "Runs waiting for parents.",
        "scheduled": "Runs waiting for their start time.",
        "queued": "Runs waiting for a worker, including held ones.",
        "held": "Queued runs that are held back.",
        "running": "Runs claimed by a worker.",
        "oldest_seconds": "Age of the oldest run that a worker may take.",
    },
    _DEPTH,
)
ActivityView = view(
    Activity,
    "Activity",
    {
        "attempts": "Number of finished attempts.",
        "succeeded": "How many succeeded.",
        "failed": "How many failed.",
        "timed_out": "How many timed out.",
        "lost": "How many were lost with their worker.",
        "snoozed": "How many snoozed their run.",
        "cancelled": "How many were cancelled, or returned by a worker that shut down.",
        "per_second": "Attempts per second.",
        "failure_rate": "Share of failed, timed out and lost attempts among all that succeeded or "
        "failed.",
        "average_ms": "Average duration.",
        "p50_ms": "Median duration (estimated from buckets, like p95 and p99).",
        "p95_ms": "95th percentile.",
        "p99_ms": "99th percentile.",
        "longest_ms": "Longest duration.",
    },
    _ACTIVITY,
)
JobView = view(
    JobActivity,
    "JobActivity",
    {"job": "Name.", "activity": "Activity."},
    {"job": "send_welcome", "activity": _ACTIVITY},
    activity=ActivityView,
)
StepView = view(
    Step,
    "Step",
    {"at": "Start of the interval.", "activity": "Activity in the interval."},
    {"at": "2026-03-08T09:00:00Z", "activity": _ACTIVITY},
    activity=ActivityView,
)
StatsView = view(
    Stats,
    "Stats",
    {
        "at": "Current time of the database's clock.",
        "counted_at": "When unfinished runs were counted: now, unless there are very many.",
        "since": "Start of the period, rounded to minutes, hours or days depending on its "
"length.",
        "until": "End of the period.",
        "step_seconds": "Interval length of the series.",
        "states": "Runs by state.",
        "oldest_queued_seconds": "Age of the oldest queued run, across all queues.",
        "queues": "Waiting and running runs by queue.",
        "total": "Activity in the period.",
        "jobs": "The same by job, busiest first, up to 100.",
        "series": "The same by interval; intervals without activity are omitted.",
    },
    {
        "at": "2026-03-08T09:59:30Z", "counted_at": "2026-03-08T09:59:28Z",
        "since": "2026-03-08T08:59:00Z", "until": "2026-03-08T09:59:30Z", "step_seconds": 60,
        "states": _STATES, "oldest_queued_seconds": 1.7, "queues": [_DEPTH], "total": _ACTIVITY,
        "jobs": [{"job": "send_welcome", "activity": _ACTIVITY}],
        "series": [{"at": "2026-03-08T09:00:00Z", "activity": _ACTIVITY}],
    },
    states=StatesView,
    queues=list_of(DepthView),
    total=ActivityView,
    jobs=list_of(JobView),
    series=list_of(StepView),
)  # fmt: skip
