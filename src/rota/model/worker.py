"""A worker as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rota.model.states import WorkerState, WorkerStatus


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One row of `rota.workers`, with what it holds.

    `queues` empty: all of them. `is_stuck`: its event loop stands still. `is_silent`: its lease
    ran out, and nobody has declared it lost yet. `is_polling`: it has no session to hear calls in,
    and finds work within `worker.poll_seconds`. `isolating_run`: it runs that one apart, because
    a worker was lost with it. `is_draining`: told to claim no more, which it knows since
    `drain_seen_at`; `is_to_stop`: it ends then, and with `is_to_hurry` within its shutdown's limit.
    `claimed_at`: when it last asked for work and was answered; `finished_at`: when it last wrote an
    end. `errors`: in a row, of the loop that has most; `trouble`: which loop does not get its work
    done, and why: live but failing. `memory_bytes` and `cpu_seconds` are those of its process and
    its children, `cpu_cores` what they used between its last two beats. `status` is all that in one
    word: `live`, `failing`, `draining`, `stopping`, `silent`, `stuck`, `asleep`, `lost` or `gone`.
    `version` is Rota's release, `release` that of its application (`ROTA_RELEASE`).
    One that is asleep has signed off under this number, and comes back under another one at
    `asleep_until` at the latest.
    """

    id: int
    name: str
    host: str
    pid: int
    version: str
    application: str | None
    state: WorkerState
    status: WorkerStatus
    queues: list[str]
    jobs: list[str]
    concurrency: int
    running: int
    claimed: int
    isolating_run: int | None
    is_draining: bool
    is_to_stop: bool
    is_to_hurry: bool
    drain_requested_at: datetime | None
    drain_requested_by: str | None
    drain_reason: str | None
    drain_seen_at: datetime | None
    is_stuck: bool
    is_silent: bool
    is_polling: bool
    lease_seconds: float
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_seconds: float
    claimed_at: datetime | None
    finished_at: datetime | None
    errors: int
    trouble: str | None
    memory_bytes: int | None
    cpu_seconds: float | None
    cpu_cores: float | None
    ended_at: datetime | None
    asleep_until: datetime | None
    release: str | None
