"""The records of statistics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from rota.model.durations import Duration
from rota.model.fields import Field
from rota.model.window import LONGEST

StepSeconds = Annotated[
    Duration | None,
    Field(
        "Interval length of the series, a multiple of a minute. Default: by the length of the "
        "period.",
        "5m",
        least=60,
        most=LONGEST.total_seconds(),
        metavar="5m",
    ),
]


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The waiting and running runs of a queue, as last counted.

    `held` runs are part of `queued`. `oldest_seconds` is the age of the oldest run that a worker
    may take.
    """

    queue: Annotated[str, Field("Name.", "mail")]
    blocked: Annotated[int, Field("Runs waiting for parents.", 0)]
    scheduled: Annotated[int, Field("Runs waiting for their start time.", 12)]
    queued: Annotated[int, Field("Runs waiting for a worker, including held ones.", 3)]
    held: Annotated[int, Field("Queued runs that are held back.", 0)]
    running: Annotated[int, Field("Runs claimed by a worker.", 2)]
    oldest_seconds: Annotated[
        float | None, Field("Age of the oldest run that a worker may take.", 1.7)
    ]


@dataclass(frozen=True, slots=True)
class StateCounts:
    """Runs by state: unfinished ones as last counted, ended ones since counting began."""

    blocked: Annotated[int, Field("Runs waiting for parents.", 0)]
    scheduled: Annotated[int, Field("Runs waiting for their start time.", 12)]
    queued: Annotated[int, Field("Runs waiting for a worker, including held ones.", 3)]
    running: Annotated[int, Field("Runs claimed by a worker.", 2)]
    succeeded: Annotated[int, Field("Succeeded runs since counting began.", 4711)]
    failed: Annotated[int, Field("Failed runs since counting began.", 3)]
    cancelled: Annotated[int, Field("Cancelled runs since counting began.", 1)]


@dataclass(frozen=True, slots=True)
class Activity:
    """Finished attempts by result, and their durations. Quantiles are estimated from buckets.

    `failure_rate` is the share of failed, timed out and lost attempts among these and the ones that
    succeeded; None if there were none. A lost attempt lasted until its worker's last heartbeat.
    """

    attempts: Annotated[int, Field("Number of finished attempts.", 120)]
    succeeded: Annotated[int, Field("How many succeeded.", 117)]
    failed: Annotated[int, Field("How many failed.", 2)]
    timed_out: Annotated[int, Field("How many timed out.", 1)]
    lost: Annotated[int, Field("How many were lost with their worker.", 0)]
    snoozed: Annotated[int, Field("How many snoozed their run.", 0)]
    cancelled: Annotated[
        int, Field("How many were cancelled, or returned by a worker that shut down.", 0)
    ]
    per_second: Annotated[float, Field("Attempts per second.", 0.033)]
    failure_rate: Annotated[
        float | None,
        Field(
            "Share of failed, timed out and lost attempts among all that succeeded or failed.",
            0.025,
        ),
    ]
    average_ms: Annotated[float | None, Field("Average duration.", 84.0)]
    p50_ms: Annotated[
        float | None, Field("Median duration (estimated from buckets, like p95 and p99).", 61.0)
    ]
    p95_ms: Annotated[float | None, Field("95th percentile.", 240.0)]
    p99_ms: Annotated[float | None, Field("99th percentile.", 410.0)]
    longest_ms: Annotated[float | None, Field("Longest duration.", 30000.0)]

    @property
    def bad(self) -> int:
        """The failed, timed out and lost attempts."""
        return self.failed + self.timed_out + self.lost


@dataclass(frozen=True, slots=True)
class JobActivity:
    """The activity of one job in the requested range."""

    job: Annotated[str, Field("Name.", "send_welcome")]
    activity: Annotated[Activity, Field("Activity.")]


@dataclass(frozen=True, slots=True)
class Step:
    """The activity in one interval of a series, which starts at `at`."""

    at: Annotated[datetime, Field("Start of the interval.")]
    activity: Annotated[Activity, Field("Activity in the interval.")]


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of the system, and its activity between `since` and `until`. Waiting and running
    runs were counted at `counted_at`, which is now unless there are very many."""

    at: Annotated[datetime, Field("Current time of the database's clock.", "2026-03-08T09:59:30Z")]
    counted_at: Annotated[
        datetime,
        Field(
            "When unfinished runs were counted: now, unless there are very many.",
            "2026-03-08T09:59:28Z",
        ),
    ]
    since: Annotated[
        datetime,
        Field(
            "Start of the period, rounded to minutes, hours or days depending on its length.",
            "2026-03-08T08:59:00Z",
        ),
    ]
    until: Annotated[datetime, Field("End of the period.", "2026-03-08T09:59:30Z")]
    step_seconds: Annotated[int, Field("Interval length of the series.", 60)]
    states: Annotated[StateCounts, Field("Runs by state.")]
    oldest_queued_seconds: Annotated[
        float | None, Field("Age of the oldest queued run, across all queues.", 1.7)
    ]
    queues: Annotated[list[QueueDepth], Field("Waiting and running runs by queue.")]
    total: Annotated[Activity, Field("Activity in the period.")]
    jobs: Annotated[list[JobActivity], Field("The same by job, busiest first, up to 100.")]
    series: Annotated[
        list[Step], Field("The same by interval; intervals without activity are omitted.")
    ]
