"""Everything at a glance, as `rota top` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rota.model.queue import QueueInfo
from rota.model.worker import WorkerInfo


@dataclass(frozen=True, slots=True)
class QueueRate:
    """A queue, and how many attempts end in it each second, by the last minute."""

    queue: QueueInfo
    per_second: float


@dataclass(frozen=True, slots=True)
class RunningRun:
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
    """Attempts of the last minutes, how many of them failed, timed out or were lost, and why."""

    job: str
    failures: int
    attempts: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ComingSchedule:
    name: str
    tenant: str
    job: str
    next_run_at: datetime
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """`at` is the database's time. `queues` are all, the longest line first; of the rest only as
    many as were asked for."""

    at: datetime
    queues: list[QueueRate]
    workers: list[WorkerInfo]
    running: list[RunningRun]
    failing: list[FailingJob]
    schedules: list[ComingSchedule]
