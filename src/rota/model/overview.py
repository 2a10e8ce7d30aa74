"""The overview, as `rota top` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from rota.model.durations import Duration
from rota.model.fields import Field
from rota.model.queue import QueueInfo
from rota.model.worker import WorkerInfo

MostShown = Annotated[
    int,
    Field("Maximum number of running, failing and upcoming items each.", 50, least=1, most=1000),
]
FailingSeconds = Annotated[
    Duration,
    Field("Period over which failures are counted.", "5m", least=1, most=604_800),
]


@dataclass(frozen=True, slots=True)
class QueueRate:
    """A queue, and how many attempts finished in it per second during the last minute."""

    queue: Annotated[QueueInfo, Field("The queue.")]
    per_second: Annotated[float, Field("Attempts finished per second.", 12.5)]


@dataclass(frozen=True, slots=True)
class RunningRun:
    """A run with a running attempt."""

    id: Annotated[int, Field("The run.", 42)]
    job: Annotated[str, Field("Job.", "send_welcome")]
    queue: Annotated[str, Field("Queue.", "mail")]
    worker: Annotated[int, Field("Worker that has it.", 3)]
    attempt: Annotated[int, Field("Attempt number.", 1)]
    started_at: Annotated[datetime, Field("Since when it has been running.")]
    progress: Annotated[float | None, Field("Reported progress, from 0 to 1.", 0.4)]
    message: Annotated[str | None, Field("Progress message.", "40 of 100")]


@dataclass(frozen=True, slots=True)
class FailingJob:
    """The recent attempts of a job: how many failed, timed out or were lost, and the last error."""

    job: Annotated[str, Field("The job.", "send_welcome")]
    failures: Annotated[int, Field("Attempts that failed, timed out or were lost.", 3)]
    attempts: Annotated[int, Field("Total attempts.", 40)]
    last_error: Annotated[str | None, Field("Error of the last failure.", "SMTPException: 421")]


@dataclass(frozen=True, slots=True)
class ComingSchedule:
    """A schedule and its next time."""

    name: Annotated[str, Field("The schedule.", "digest")]
    tenant: Annotated[str, Field("Tenant.", "")]
    job: Annotated[str, Field("Job.", "send_digest")]
    next_run_at: Annotated[datetime, Field("Next run time.")]
    is_paused: Annotated[bool, Field("Whether it is paused and will skip that time.", False)]


@dataclass(frozen=True, slots=True)
class Overview:
    """An overview of the system at the database's time `at`. `queues` has all queues, largest
    backlog first; `running`, `failing` and `schedules` are limited."""

    at: Annotated[datetime, Field("Current time of the database's clock.")]
    queues: Annotated[list[QueueRate], Field("All queues, largest backlog first.")]
    workers: Annotated[
        list[WorkerInfo], Field("All workers that have not shut down, newest first.")
    ]
    running: Annotated[list[RunningRun], Field("Longest-running attempts.")]
    failing: Annotated[list[FailingJob], Field("Jobs with recent failures, worst first.")]
    schedules: Annotated[list[ComingSchedule], Field("Schedules due next.")]
