"""Workers: their fields, and a worker as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rota.model.fields import Field
from rota.model.states import WorkerState, WorkerStatus

WorkerOrder = Literal["newest", "oldest"]

WorkerId = Annotated[int, Field("Worker ID.", 3, least=1, most=2**63 - 1)]
IncludeGone = Annotated[
    bool, Field("Include workers that shut down, or were lost more than 10 minutes ago.", True)
]
ThenStop = Annotated[
    bool, Field("Exit instead of waiting to be resumed.", True, label="Stop afterwards")
]
AtOnce = Annotated[
    bool,
    Field(
        "Interrupt attempts that outlast the shutdown timeout; they are requeued without using an "
        "attempt.",
        True,
    ),
]
Order = Annotated[WorkerOrder, Field("Sort order: newest or oldest first.", "newest")]


class WorkerFilters(TypedDict, total=False):
    status: Annotated[WorkerStatus | None, Field("Filter by status.", "live")]
    host: Annotated[str | None, Field("Filter by host.", "web-1", longest=300)]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One row of `rota.workers` with its current state.

    `memory_bytes` and `cpu_seconds` include its child processes. `version` is the release of Rota,
    `release` that of its application (`ROTA_RELEASE`). `status` summarises the others: `live`,
    `failing`, `draining`, `stopping`, `silent`, `stuck`, `asleep`, `lost` or `gone`. A worker that
    is asleep has signed off under this id, and comes back under a new one at `asleep_until` at the
    latest.
    """

    id: Annotated[int, Field("Worker ID; never reused.", 3)]
    name: Annotated[str, Field("Name.", "web-1")]
    host: Annotated[str, Field("Host.", "web-1")]
    pid: Annotated[int, Field("Process ID.", 4711)]
    version: Annotated[str, Field("The release of Rota that it runs.", "0.1.0")]
    application: Annotated[str | None, Field("The application that it runs for.", "shop.jobs")]
    state: Annotated[WorkerState, Field("Lifecycle state.", "live")]
    status: Annotated[
        WorkerStatus, Field("State with details: draining, silent, stuck, failing, asleep.", "live")
    ]
    queues: Annotated[list[str], Field("Queues it claims from; empty: all.", [])]
    jobs: Annotated[list[str], Field("Jobs it knows.", ["send_welcome"])]
    concurrency: Annotated[int, Field("Maximum concurrent attempts.", 16)]
    running: Annotated[int, Field("Number of running attempts.", 4)]
    claimed: Annotated[int, Field("Number of claimed runs.", 4)]
    isolating_run: Annotated[
        int | None,
        Field("Run that it executes in isolation, because a worker was lost with it."),
    ]
    is_draining: Annotated[bool, Field("Whether it was asked to stop claiming.", False)]
    is_to_stop: Annotated[bool, Field("Whether it exits once drained.", False)]
    is_to_hurry: Annotated[
        bool, Field("Whether it interrupts attempts that outlast the shutdown timeout.", False)
    ]
    drain_requested_at: Annotated[datetime | None, Field("When the drain was requested.")]
    drain_requested_by: Annotated[str | None, Field("Who requested it.")]
    drain_reason: Annotated[str | None, Field("Why it was requested.")]
    drain_seen_at: Annotated[datetime | None, Field("When the worker noticed the request.")]
    is_stuck: Annotated[bool, Field("Whether its event loop is blocked.", False)]
    is_silent: Annotated[
        bool, Field("Whether its lease has expired but it has not been declared lost yet.", False)
    ]
    is_polling: Annotated[
        bool,
        Field("Whether it only polls, because it has no session to receive notifications.", False),
    ]
    lease_seconds: Annotated[
        float, Field("Time without a heartbeat after which it is considered lost.", 30.0)
    ]
    started_at: Annotated[datetime, Field("When it started.")]
    heartbeat_at: Annotated[datetime, Field("Last heartbeat.")]
    heartbeat_seconds: Annotated[float, Field("Seconds since the last heartbeat.", 3.1)]
    claimed_at: Annotated[datetime | None, Field("Last successful claim.")]
    finished_at: Annotated[datetime | None, Field("When it last stored results of attempts.")]
    errors: Annotated[int, Field("Consecutive errors of the loop with the most.", 0)]
    trouble: Annotated[str | None, Field("Which of its loops is failing, and why.")]
    memory_bytes: Annotated[
        int | None, Field("Resident memory of its process and its children.", 148_226_048)
    ]
    cpu_seconds: Annotated[float | None, Field("CPU time they have used.", 812.4)]
    cpu_cores: Annotated[float | None, Field("Cores in use between its last two heartbeats.", 0.31)]
    ended_at: Annotated[datetime | None, Field("End time.")]
    asleep_until: Annotated[
        datetime | None, Field("If asleep: when it comes back at the latest, under a new ID.")
    ]
    release: Annotated[str | None, Field("Release of its application.", "2026-03-08")]
