"""All measurements as totals, for metrics and the live stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from rota.model.stats import QueueDepth


@dataclass(frozen=True, slots=True)
class AttemptMetric:
    """All attempts of a job in a queue that ever ended with this outcome."""

    job: str
    queue: str
    outcome: str
    attempts: int
    seconds: float
    buckets: list[int]


@dataclass(frozen=True, slots=True)
class Counter:
    """The number of times something happened. `age` is the time since it last happened, in
    seconds."""

    name: str
    labels: dict[str, str]
    amount: int
    seconds: float
    buckets: list[int] | None
    age: float


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """The state of workers and schedules; None if there is nothing to measure."""

    live: int
    draining: int
    stopping: int
    stuck: int
    failing: int
    silent: int
    asleep: int
    lost: int
    slots: int
    heartbeat_seconds: float | None
    memory_bytes: int | None
    memory_most_bytes: int | None
    cpu_cores: float | None
    schedules_active: int
    schedules_paused: int
    schedules_parked: int
    overdue_seconds: float | None
    duplicates: int
    events: int
    event_starts: int
    hook_refusals: int
    queues_paused: int
    queues_full: int
    queue_refusals: int


@dataclass(frozen=True, slots=True)
class LimitMetric:
    """The use of a limit."""

    name: str
    in_use: int
    waiting: int


@dataclass(frozen=True, slots=True)
class CapMetric:
    """The waiting runs of a queue that has a cap."""

    queue: str
    max_waiting: int
    waiting: int


@dataclass(frozen=True, slots=True)
class TenantMetric:
    """The unfinished runs of a tenant, and the results of its attempts today; `tenant` is None for
    all tenants that are not listed."""

    tenant: str | None
    blocked: int
    scheduled: int
    queued: int
    held: int
    running: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """All measured values, as totals."""

    depths: list[QueueDepth]
    attempts: list[AttemptMetric]
    counters: list[Counter]
    health: FleetHealth
    limits: list[LimitMetric] = field(default_factory=list)
    caps: list[CapMetric] = field(default_factory=list)
    tenants: list[TenantMetric] = field(default_factory=list)
    tenants_paused: int = 0
    counted_seconds: float = 0.0  # the age of the depths


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """An operator action: a row of the audit."""

    id: int
    at: datetime
    actor: str
    action: str
    object_type: str
    object_id: str
    tenant: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """Totals and states at one moment, to be compared with later ones."""

    attempts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    counts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)
    depths: dict[str, QueueDepth] = field(default_factory=dict)
    workers: dict[int, tuple[str, str]] = field(default_factory=dict)
    deeds: list[OperatorAction] = field(default_factory=list)
