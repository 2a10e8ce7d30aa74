"""A queue as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """What waits in a queue, who serves it, and whether it is paused.

    `held` runs are part of `queued`. `oldest_seconds` is how long the oldest of those that a
    worker may take has waited.
    """

    name: str
    blocked: int
    scheduled: int
    queued: int
    held: int
    running: int
    oldest_seconds: float | None
    workers: int
    is_paused: bool
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    version: int = 1
