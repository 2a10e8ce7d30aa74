"""The records of statistics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The waiting and running runs of a queue, as last counted.

    `held` runs are part of `queued`. `oldest_seconds` is the age of the oldest run that a worker
    may take.
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
    """Runs by state: unfinished ones as last counted, ended ones since counting began."""

    blocked: int
    scheduled: int
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class Activity:
    """Finished attempts by result, and their durations. Quantiles are estimated from buckets.

    `failure_rate` is the share of failed, timed out and lost attempts among these and the ones that
    succeeded; None if there were none. A lost attempt lasted until its worker's last heartbeat.
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
        """The failed, timed out and lost attempts."""
        return self.failed + self.timed_out + self.lost


@dataclass(frozen=True, slots=True)
class JobActivity:
    """The activity of one job in the requested range."""

    job: str
    activity: Activity


@dataclass(frozen=True, slots=True)
class Step:
    """The activity in one interval of a series, which starts at `at`."""

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
