"""Figures as a reader sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """What waits and runs in a queue, as it was counted last.

    `held` runs are part of `queued`. `oldest_seconds` is how long the oldest of those that a
    worker may take has waited.
    """

    queue: str
    blocked: int
    scheduled: int
    queued: int
    held: int
    running: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class StateCounts:
    """Runs by state: open ones as counted last, ended ones since ends are counted."""

    blocked: int
    scheduled: int
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class Activity:
    """Attempts that ended, how, and how long they took (from buckets: quantiles are estimates).

    `failure_rate` is the share of failed, timed out and lost ones among those and the ones that
    succeeded; None where there were none. A lost attempt lasted until its worker's last heartbeat.
    """

    attempts: int
    succeeded: int
    failed: int
    timed_out: int
    lost: int
    snoozed: int
    cancelled: int
    per_second: float
    failure_rate: float | None
    average_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    longest_ms: float | None

    @property
    def bad(self) -> int:
        """Those that `failure_rate` is about."""
        return self.failed + self.timed_out + self.lost


@dataclass(frozen=True, slots=True)
class JobActivity:
    """What one job did in the time that was asked about."""

    job: str
    activity: Activity


@dataclass(frozen=True, slots=True)
class Step:
    """What was done in one step of a series, from `at` on."""

    at: datetime
    activity: Activity


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of the system, and its activity between `since` and `until`. Waiting and running
    runs were counted at `counted_at`, which is now unless there are very many."""

    at: datetime
    counted_at: datetime
    since: datetime
    until: datetime
    step_seconds: int
    states: StateCounts
    oldest_queued_seconds: float | None
    queues: list[QueueDepth]
    total: Activity
    jobs: list[JobActivity]
    series: list[Step]
