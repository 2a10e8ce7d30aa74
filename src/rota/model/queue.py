"""A queue as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

WhenFull = Literal["refuse", "drop_lowest"]


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """What waits in a queue, who serves it, and whether it is paused.

    `held` runs are part of `queued`. `oldest_seconds` is how long the oldest of those that a
    worker may take has waited. `paused_until`: it goes on by itself then. The counts are
    `counted_seconds` old: nothing, unless very many runs are open. `max_waiting`: so many may wait,
    ready or not; `is_edited`: an operator's word, not the code's.
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
    """What waits and runs of one job in one queue."""

    job: str
    blocked: int
    scheduled: int
    queued: int
    held: int
    running: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """A queue, and what is in it by job, the longest line first."""

    queue: QueueInfo
    jobs: list[JobDepth]
