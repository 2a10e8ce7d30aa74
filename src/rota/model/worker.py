"""A worker as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One row of `rota.workers`, with what it holds.

    `queues` empty: all of them. `is_stuck`: its event loop stands still. `is_silent`: its lease
    ran out, and nobody has declared it lost yet.
    """

    id: int
    name: str
    host: str
    pid: int
    version: str
    state: str
    queues: list[str]
    jobs: list[str]
    concurrency: int
    running: int
    claimed: int
    is_stuck: bool
    is_silent: bool
    lease_seconds: float
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_seconds: float
    ended_at: datetime | None
