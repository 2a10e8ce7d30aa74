"""The record of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rota.model.states import WorkerState, WorkerStatus


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One row of `rota.workers` with its current state.

    `queues`: empty means all. `is_stuck`: its event loop is blocked. `is_silent`: its lease has
    expired, but it has not been declared lost yet. `is_polling`: it receives no notifications and
    finds work within `worker.poll_seconds`. `isolating_run`: the run that it executes in isolation,
    because a worker was lost with it.

    `is_draining`: it was asked to stop claiming, which it noticed at `drain_seen_at`; `is_to_stop`:
    it exits afterwards; `is_to_hurry`: within its shutdown timeout. `claimed_at`: its last
    successful claim; `finished_at`: when it last stored results. `errors`: consecutive errors of
    the loop with the most; `trouble`: which loop is failing, and why.

    `memory_bytes` and `cpu_seconds` include its child processes; `cpu_cores` is the use between its
    last two heartbeats. `version` is the release of Rota, `release` that of its application
    (`ROTA_RELEASE`). `status` summarises all of this: `live`, `failing`, `draining`, `stopping`,
    `silent`, `stuck`, `asleep`, `lost` or `gone`. A worker that is asleep has signed off under this
    id, and comes back under a new one at `asleep_until` at the latest.
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
