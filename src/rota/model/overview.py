"""The overview, as `rota top` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rota.model.queue import QueueInfo
from rota.model.worker import WorkerInfo


@dataclass(frozen=True, slots=True)
class QueueRate:
    """A queue, and how many attempts finished in it per second during the last minute."""

    queue: QueueInfo
    per_second: float


@dataclass(frozen=True, slots=True)
class RunningRun:
    """A run with a running attempt."""

    id: int
    job: str
    queue: str
    worker: int
    attempt: int
    started_at: datetime
    progress: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class FailingJob:
    """The recent attempts of a job: how many failed, timed out or were lost, and the last error."""

    job: str
    failures: int
    attempts: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ComingSchedule:
    """A schedule and its next time."""

    name: str
    tenant: str
    job: str
    next_run_at: datetime
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """An overview of the system at the database's time `at`. `queues` has all queues, largest
    backlog first; `running`, `failing` and `schedules` are limited."""

    at: datetime
    queues: list[QueueRate]
    workers: list[WorkerInfo]
    running: list[RunningRun]
    failing: list[FailingJob]
    schedules: list[ComingSchedule]
