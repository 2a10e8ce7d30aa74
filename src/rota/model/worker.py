"""A worker as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One row of `rota.workers`, with what it holds.

    `queues` empty: all of them. `is_stuck`: its event loop stands still. `is_silent`: its lease
    ran out, and nobody has declared it lost yet. `isolating_run`: it runs that one apart, because
    a worker was lost with it. `is_draining`: told to claim no more, which it knows since
    `drain_seen_at`. `claimed_at`: when it last asked for work and was answered; `finished_at`: when
    it last wrote an end. `errors`: in a row, of the loop that has most; `trouble`: which loop does
    not get its work done, and why: live but failing. `status` is all that in one word: `live`,
    `failing`, `draining`, `stopping`, `silent`, `stuck`, `lost` or `gone`.
    """

    id: int
    name: str
    host: str
    pid: int
    version: str
    application: str | None
    state: str
    status: str
    queues: list[str]
    jobs: list[str]
    concurrency: int
    running: int
    claimed: int
    isolating_run: int | None
    is_draining: bool
    is_to_stop: bool
    drain_requested_at: datetime | None
    drain_requested_by: str | None
    drain_reason: str | None
    drain_seen_at: datetime | None
    is_stuck: bool
    is_silent: bool
    lease_seconds: float
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_seconds: float
    claimed_at: datetime | None
    finished_at: datetime | None
    errors: int
    trouble: str | None
    ended_at: datetime | None
