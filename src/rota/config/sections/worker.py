"""`[worker]` of rota.toml."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from rota.config.sections.shown import YEAR, Shown


def default_concurrency() -> int:
    return min(1024, 4 * (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker claims runs, renews its lease and shuts down."""

    concurrency: Annotated[
        int,
        Field(ge=1, le=1024, description="Slots: maximum concurrent attempts per worker process."),
        Shown(default="4 × cores"),
    ] = field(default_factory=default_concurrency)
    processes: Annotated[
        int, Field(ge=1, le=64, description="Number of worker processes that `rota worker` starts.")
    ] = 1
    queues: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(
            description="Queues to claim from. Empty: all. Rota's own queue, `rota.system`, is "
            "always included.",
            examples=[("mail",)],
        ),
        Shown(default="all"),
    ] = ()
    isolation: Annotated[
        Literal["process", "inline"],
        Field(
            description="Where to isolate a run that was lost with its worker: in a separate "
            "process if its handler supports it, or always in the worker's own "
            "process."
        ),
    ] = "process"
    child_max_runs: Annotated[
        int | None,
        Field(
            ge=1,
            le=1_000_000_000,
            description="Number of attempts after which a child process of the process executor "
            "is replaced. Not set: never.",
            examples=[1000],
        ),
    ] = None
    child_max_memory_mb: Annotated[
        int | None,
        Field(
            ge=16,
            le=16_777_216,
            description="Resident memory, in MiB, above which a child process of the process "
            "executor is replaced after an attempt (Linux only). Not set: never.",
            examples=[512],
        ),
    ] = None
    poll_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=60,
            description="Maximum interval between polls when no notification arrives. For an idle "
            "worker that receives notifications, it is six times as long, up to 6 seconds "
            "(values above 6 are used unchanged).",
        ),
    ] = 1.0
    lease_seconds: Annotated[
        float,
        Field(
            ge=10,
            le=3600,
            description="Time without a heartbeat after which a worker is considered lost and its "
            "runs are rescued. The lease is renewed every third of this time. It does "
            "not limit how long a run may take.",
        ),
    ] = 30.0
    patience_seconds: Annotated[
        float,
        Field(
            ge=5,
            le=3600,
            description="Time after which a worker that cannot claim runs or store results, "
            "although the database is available, gives up its identity. If that does "
            "not help, its process exits.",
        ),
    ] = 60.0
    sleep_after_seconds: Annotated[
        float | None,
        Field(
            ge=1,
            le=86_400,
            description="Idle time after which a worker goes to sleep: it closes its connections "
            "until something is due or it is woken. Not set: never.",
            examples=[300.0],
        ),
    ] = None
    sleep_at_most_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=86_400,
            description="Maximum sleep time, and so the maximum wait of a run that is enqueued "
            "meanwhile.",
        ),
    ] = 3600.0
    shutdown_seconds: Annotated[
        float,
        Field(ge=0, le=3600, description="Time that running attempts have to finish on shutdown."),
    ] = 30.0
    claim_size: Annotated[
        int, Field(ge=1, le=5000, description="Maximum number of runs per claim.")
    ] = 500
    unknown_job_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=YEAR,
            description="How long a run waits for a worker that knows its job before it fails.",
        ),
    ] = 86_400.0
    refused_payload_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=YEAR,
            description="How long a run whose payload no live worker's code accepts waits for one "
            "that does before it fails.",
        ),
    ] = 86_400.0
