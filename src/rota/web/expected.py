"""Estimate when a run will end, from its progress and the usual duration of its job. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rota.model.run import RunInfo
from rota.model.stats import Activity
from rota.web import time_text

# Below this progress, an estimate of the end is too uncertain.
_TELLING = 0.05
# With fewer attempts there is no history.
_LEAST = 3


@dataclass(frozen=True, slots=True)
class Expected:
    """`left` is about a running run; `usual` about its job. `is_late`: longer than nearly all
    attempts."""

    left: str
    usual: str
    is_late: bool


def expected_of(run: RunInfo, activity: Activity | None, now: datetime) -> Expected:
    history = activity if activity is not None and activity.attempts >= _LEAST else None
    usual = ""
    if history is not None and history.p50_ms is not None and history.p95_ms is not None:
        p50, p95 = (
            time_text.duration(history.p50_ms / 1000),
            time_text.duration(history.p95_ms / 1000),
        )
        usual = f"usually {p50}, p95 {p95}"
    if run.state != "running" or run.started_at is None:
        return Expected("", usual, False)
    passed = max(0.0, (now - run.started_at).total_seconds())
    if run.progress is not None and run.progress >= _TELLING:
        left = passed / run.progress - passed
        return Expected(f"about {time_text.roughly(max(left, 1))} left", usual, False)
    if history is None or history.p50_ms is None:
        return Expected("", usual, False)
    if passed < history.p50_ms / 1000:
        left = history.p50_ms / 1000 - passed
        return Expected(f"about {time_text.roughly(max(left, 1))} left", usual, False)
    is_late = history.p99_ms is not None and passed > max(history.p99_ms / 1000, 1.0)
    return Expected("longer than usual" if is_late else "should end soon", usual, is_late)
