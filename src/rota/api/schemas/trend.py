"""Figures over time, compared with those of the day before."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import view
from rota.model.trend import Curve, Trend

_CURVE: dict[str, Any] = {
    "succeeded": [117, 120], "failed": [3, 0], "p50_ms": [61.0, 58.0], "p95_ms": [240.0, 220.0],
    "p99_ms": [410.0, 390.0], "pickup_p50_ms": [4.1, 3.9], "pickup_p95_ms": [84.0, 61.0],
    "pickup_p99_ms": [212.0, 180.0], "queued": [3, 0], "running": [2, 1],
    "oldest_seconds": [1.7, 0.0],
}  # fmt: skip

CurveView = view(
    Curve,
    "Curve",
    {
        "succeeded": "Attempts that succeeded in each interval.",
        "failed": "Attempts that failed, timed out or were lost.",
        "p50_ms": "Median duration; null if no attempt finished.",
        "p95_ms": "95th percentile.",
        "p99_ms": "99th percentile.",
        "pickup_p50_ms": "Median pick-up latency, from due to claimed; null if not measured.",
        "pickup_p95_ms": "95th percentile.",
        "pickup_p99_ms": "99th percentile.",
        "queued": "Backlog at the end of the interval; null if not counted, or for a single job.",
        "running": "Running attempts at that time.",
        "oldest_seconds": "Longest wait of a run in the interval.",
    },
    _CURVE,
)
TrendView = view(
    Trend,
    "Trend",
    {
        "at": "Current time of the database's clock.",
        "since": "Start of the first interval.",
        "step_seconds": "Interval length.",
        "steps": "Number of intervals.",
        "last_seconds": "Elapsed seconds of the last interval.",
        "now": "Values, one for each interval.",
        "before": "The same, a day earlier.",
        "queued": "Runs waiting now.",
        "running": "Attempts running now.",
        "oldest_seconds": "Age of the oldest run that a worker may take.",
        "oldest_queue": "Queue of the oldest run.",
    },
    {
        "at": "2026-03-08T09:59:30Z", "since": "2026-03-08T09:58:00Z", "step_seconds": 60,
        "steps": 2, "last_seconds": 30.0, "now": _CURVE, "before": _CURVE, "queued": 3,
        "running": 2, "oldest_seconds": 1.7, "oldest_queue": "mail",
    },
    now=CurveView,
    before=CurveView,
)  # fmt: skip
