"""Every metric: its name, what it tells, and from which of the kept totals it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`source` is the name under which the database counts it, where it is such a count."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    source: str | None = None


QUEUE_RUNS = Metric(
    "rota_queue_runs", "gauge", ("queue", "state"),
    "Open runs by queue and state; held ones are not among the queued.",
)  # fmt: skip
QUEUE_OLDEST = Metric(
    "rota_queue_oldest_seconds", "gauge", ("queue",),
    "How long the oldest queued run that a worker may take has waited.",
)  # fmt: skip
QUEUE_COUNT_AGE = Metric(
    "rota_queue_count_age_seconds", "gauge", (), "How long ago open runs were counted."
)
QUEUES_PAUSED = Metric("rota_queues_paused", "gauge", (), "Queues that are paused.")
QUEUE_CAP = Metric(
    "rota_queue_cap", "gauge", ("queue",), "How many runs may wait in a queue that has a cap."
)
QUEUE_CAP_WAITING = Metric(
    "rota_queue_cap_waiting", "gauge", ("queue",),
    "How many wait in it, as the cap counts: ready, held and for later, hardly beyond the cap.",
)  # fmt: skip
QUEUES_FULL = Metric("rota_queues_full", "gauge", (), "Queues with as many waiting as may.")
QUEUE_REFUSALS = Metric(
    "rota_queue_refusals", "counter", (), "Enqueues refused because their queue was full."
)
RUNS_DROPPED = Metric(
    "rota_runs_dropped", "counter", ("queue",),
    "Runs that were dropped because their queue was full.", "runs_dropped",
)  # fmt: skip
TENANT_RUNS = Metric(
    "rota_tenant_runs", "gauge", ("tenant", "state"),
    "Open runs by tenant and state; held ones are not among the queued.",
)  # fmt: skip
TENANT_ATTEMPTS = Metric(
    "rota_tenant_attempts_today", "gauge", ("tenant", "outcome"),
    "Attempts that ended since 00:00 UTC, by tenant.",
)  # fmt: skip
TENANTS_PAUSED = Metric("rota_tenants_paused", "gauge", (), "Tenants that are paused.")
ATTEMPTS = Metric(
    "rota_attempts", "counter", ("job", "queue", "outcome"), "Attempts that ended."
)  # fmt: skip
DURATIONS = Metric(
    "rota_attempt_duration_seconds", "histogram", ("job", "queue", "outcome"),
    "How long attempts took.",
)  # fmt: skip
RUNS_ENDED = Metric(
    "rota_runs_ended", "counter", ("job", "queue", "state"), "Runs that ended.", "runs_ended"
)
PICKUPS = Metric(
    "rota_pickup_seconds", "histogram", ("queue",),
    "From when a run could be claimed until it was: the first run of each claim.", "pickups",
)  # fmt: skip
WORKERS = Metric(
    "rota_workers", "gauge", ("state",),
    "Workers by state; lost ones of the last hour.",
)  # fmt: skip
SLOTS = Metric("rota_worker_slots", "gauge", (), "Slots of all live workers.")
HEARTBEAT_AGE = Metric(
    "rota_worker_heartbeat_age_seconds", "gauge", (),
    "The longest time that a live or stopping worker has been silent.",
)  # fmt: skip
WORKERS_MEMORY = Metric(
    "rota_workers_memory_bytes", "gauge", (), "Resident memory of all workers together."
)
WORKER_MEMORY = Metric(
    "rota_worker_memory_max_bytes", "gauge", (), "That of the worker that has most."
)
WORKERS_CPU = Metric("rota_workers_cpu_cores", "gauge", (), "Cores that all workers together use.")
WORKERS_LOST = Metric(
    "rota_workers_lost", "counter", (), "Workers that lost their lease.", "workers_lost"
)
LATE_ENDS = Metric(
    "rota_late_ends", "counter", (),
    "Ends of attempts that came too late: their runs belonged to others.", "late_ends",
)  # fmt: skip
DUPLICATES = Metric(
    "rota_duplicates", "counter", (), "Enqueues refused because their key was held."
)
EVENTS = Metric(
    "rota_events", "counter", (), "Events emitted; those of transactions that rolled back too."
)
EVENT_RUNS = Metric("rota_event_runs", "counter", (), "Runs that events started, replays too.")
HOOK_REFUSALS = Metric("rota_hook_refusals", "counter", (), "Requests that webhooks refused.")
LIMIT_IN_USE = Metric(
    "rota_limit_in_use", "gauge", ("limit",), "Runs that have a place in a limit; the fullest 100."
)
LIMIT_WAITING = Metric(
    "rota_limit_waiting", "gauge", ("limit",),
    "Runs that wait for a limit, counted up to ten thousand; of the same ones.",
)  # fmt: skip
RUNS_ADMITTED = Metric(
    "rota_runs_admitted", "counter", (), "Runs that limits have let through.", "runs_admitted"
)
LIMITS_MENDED = Metric(
    "rota_limits_mended", "counter", (),
    "Counters of limits that differed from the runs, and were mended.", "limits_mended",
)  # fmt: skip
LOOP_ERRORS = Metric(
    "rota_loop_errors", "counter", ("loop",),
    "Turns of a worker's loops that failed; ticks are those of `scheduler`.", "loop_errors",
)  # fmt: skip
TICKS = Metric("rota_ticks", "counter", (), "Passes of the scheduler that went well.", "ticks")
TICK_AGE = Metric("rota_tick_age_seconds", "gauge", (), "How long ago the last one was.", "ticks")
SCHEDULES = Metric("rota_schedules", "gauge", ("state",), "Schedules: active, paused, parked.")
OVERDUE = Metric(
    "rota_schedule_overdue_seconds", "gauge", (),
    "How long the schedule that is due longest has waited for a tick.",
)  # fmt: skip
OCCURRENCES = Metric(
    "rota_occurrences", "counter", ("decision", "reason"),
    "Nominal times by what was decided about them.", "occurrences",
)  # fmt: skip
SCHEDULE_CLAIMS = Metric(
    "rota_schedule_claim_seconds", "histogram", (),
    "From a nominal time until its run was enqueued; without what was caught up.",
    "schedule_claims",
)  # fmt: skip
SCHEDULE_STARTS = Metric(
    "rota_schedule_lateness_seconds", "histogram", (),
    "From the time that a scheduled run was meant for until a worker took it.",
    "schedule_starts",
)  # fmt: skip
LINES_STORED = Metric("rota_log_lines", "counter", (), "Log lines stored.", "lines_stored")
LINES_DROPPED = Metric(
    "rota_log_lines_dropped", "counter", (), "Log lines dropped by full buffers.", "lines_dropped"
)

METRICS = (
    QUEUE_RUNS, QUEUE_OLDEST, QUEUE_COUNT_AGE, QUEUES_PAUSED, QUEUE_CAP, QUEUE_CAP_WAITING,
    QUEUES_FULL, QUEUE_REFUSALS, RUNS_DROPPED, TENANT_RUNS, TENANT_ATTEMPTS,
    TENANTS_PAUSED, ATTEMPTS, DURATIONS, RUNS_ENDED,
    PICKUPS, WORKERS, SLOTS, HEARTBEAT_AGE, WORKERS_MEMORY, WORKER_MEMORY, WORKERS_CPU,
    WORKERS_LOST, LATE_ENDS, DUPLICATES, EVENTS, EVENT_RUNS, HOOK_REFUSALS, LIMIT_IN_USE,
    LIMIT_WAITING, RUNS_ADMITTED, LIMITS_MENDED, LOOP_ERRORS, TICKS, TICK_AGE, SCHEDULES, OVERDUE,
    OCCURRENCES, SCHEDULE_CLAIMS, SCHEDULE_STARTS, LINES_STORED, LINES_DROPPED,
)  # fmt: skip
