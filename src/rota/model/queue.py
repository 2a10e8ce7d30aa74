"""A queue as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

WhenFull = Literal["refuse", "drop_lowest"]


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue with its backlog, workers and pause.

    `held` runs are part of `queued`. `oldest_seconds` is the age of the oldest run that a worker
    may take. `paused_until` is when it resumes automatically. The counts are `counted_seconds` old:
    0, unless very many runs are unfinished. `max_waiting` is the maximum number of waiting runs,
    ready or not; `is_edited` is true if an operator has overridden the code.
    """

    name: str
    blocked: int
    scheduled: int
    queued: int
    held: int
    running: int
    oldest_seconds: float | None
    counted_seconds: float
    workers: int
    is_paused: bool
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None = None
    version: int = 1
    max_waiting: int | None = None
    when_full: WhenFull = "refuse"
    full_since: datetime | None = None
    is_edited: bool = False


@dataclass(frozen=True, slots=True)
class JobDepth:
    """The waiting and running runs of one job in one queue."""

    job: str
    blocked: int
    scheduled: int
    queued: int
    held: int
    running: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """A queue and its runs by job, largest backlog first."""

    queue: QueueInfo
    jobs: list[JobDepth]
