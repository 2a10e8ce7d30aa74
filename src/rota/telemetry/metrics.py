"""Every metric: its name, its meaning, and the stored total that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`source` is the name of the counter in the database, if the metric is such a counter."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    source: str | None = None


QUEUE_RUNS = Metric(
    "rota_queue_runs",
    "gauge",
    ("queue", "state"),
    "Unfinished runs by queue and state; `queued` does not include held runs.",
)
QUEUE_OLDEST = Metric(
    "rota_queue_oldest_seconds",
    "gauge",
    ("queue",),
    "Age of the oldest queued run that is not held.",
)
QUEUE_COUNT_AGE = Metric(
    "rota_queue_count_age_seconds", "gauge", (), "Age of the count of unfinished runs."
)
QUEUES_PAUSED = Metric("rota_queues_paused", "gauge", (), "Paused queues.")
QUEUE_CAP = Metric(
    "rota_queue_cap", "gauge", ("queue",), "Cap of a queue: the maximum number of waiting runs."
)
QUEUE_CAP_WAITING = Metric(
    "rota_queue_cap_waiting",
    "gauge",
    ("queue",),
    "Waiting runs (ready, held and scheduled), counted up to about the cap.",
)
QUEUES_FULL = Metric("rota_queues_full", "gauge", (), "Queues that have reached their cap.")
QUEUE_REFUSALS = Metric(
    "rota_queue_refusals", "counter", (), "Enqueues refused because the queue was full."
)
RUNS_DROPPED = Metric(
    "rota_runs_dropped",
    "counter",
    ("queue",),
    "Runs dropped because the queue was full.",
    "runs_dropped",
)
TENANT_RUNS = Metric(
    "rota_tenant_runs",
    "gauge",
    ("tenant", "state"),
    "Unfinished runs by tenant and state; `queued` does not include held runs.",
)
TENANT_ATTEMPTS = Metric(
    "rota_tenant_attempts_today",
    "gauge",
    ("tenant", "outcome"),
    "Attempts finished since 00:00 UTC, by tenant.",
)
TENANTS_PAUSED = Metric("rota_tenants_paused", "gauge", (), "Paused tenants.")
ATTEMPTS = Metric("rota_attempts", "counter", ("job", "queue", "outcome"), "Finished attempts.")
DURATIONS = Metric(
    "rota_attempt_duration_seconds",
    "histogram",
    ("job", "queue", "outcome"),
    "Duration of attempts.",
)
RUNS_ENDED = Metric(
    "rota_runs_ended", "counter", ("job", "queue", "state"), "Finished runs.", "runs_ended"
)
PICKUPS = Metric(
    "rota_pickup_seconds",
    "histogram",
    ("queue",),
    "Pick-up latency, from claimable to claimed, of the first run of each claim.",
    "pickups",
)
WORKERS = Metric(
    "rota_workers",
    "gauge",
    ("state",),
    "Workers by state: live, draining, stopping, stuck, failing, silent, asleep, and lost in the "
    "last hour.",
)
SLOTS = Metric("rota_worker_slots", "gauge", (), "Slots of all live workers.")
HEARTBEAT_AGE = Metric(
    "rota_worker_heartbeat_age_seconds",
    "gauge",
    (),
    "Longest time since the last heartbeat of a live or stopping worker.",
)
WORKERS_MEMORY = Metric("rota_workers_memory_bytes", "gauge", (), "Resident memory of all workers.")
WORKER_MEMORY = Metric(
    "rota_worker_memory_max_bytes", "gauge", (), "Resident memory of the worker that uses most."
)
WORKERS_CPU = Metric("rota_workers_cpu_cores", "gauge", (), "CPU cores used by all workers.")
WORKERS_LOST = Metric(
    "rota_workers_lost", "counter", (), "Workers that lost their lease.", "workers_lost"
)
LATE_ENDS = Metric(
    "rota_late_ends",
    "counter",
    (),
    "Results rejected because the run no longer belonged to the worker.",
    "late_ends",
)
DUPLICATES = Metric("rota_duplicates", "counter", (), "Enqueues and events whose key was taken.")
EVENTS = Metric(
    "rota_events",
    "counter",
    (),
    "Events emitted, including those of transactions that rolled back.",
)
EVENT_RUNS = Metric("rota_event_runs", "counter", (), "Runs started by events, including replays.")
HOOK_REFUSALS = Metric("rota_hook_refusals", "counter", (), "Rejected webhook requests.")
LIMIT_IN_USE = Metric(
    "rota_limit_in_use", "gauge", ("limit",), "Slots of a limit in use; the 100 busiest limits."
)
LIMIT_WAITING = Metric(
    "rota_limit_waiting",
    "gauge",
    ("limit",),
    "Runs waiting for a limit, counted up to 10,000; the 100 busiest limits.",
)
RUNS_ADMITTED = Metric(
    "rota_runs_admitted", "counter", (), "Runs admitted by limits.", "runs_admitted"
)
LIMITS_MENDED = Metric(
    "rota_limits_mended",
    "counter",
    (),
    "Counters of limits that were wrong and have been corrected.",
    "limits_mended",
)
LOOP_ERRORS = Metric(
    "rota_loop_errors",
    "counter",
    ("loop",),
    "Failed passes of a worker's loops; the loop `scheduler` makes the ticks.",
    "loop_errors",
)
TICKS = Metric("rota_ticks", "counter", (), "Successful scheduler ticks.", "ticks")
TICK_AGE = Metric(
    "rota_tick_age_seconds", "gauge", (), "Time since the last successful scheduler tick.", "ticks"
)
SCHEDULES = Metric(
    "rota_schedules", "gauge", ("state",), "Schedules by state: active, paused, parked."
)
OVERDUE = Metric(
    "rota_schedule_overdue_seconds", "gauge", (), "How long the most overdue schedule has been due."
)
OCCURRENCES = Metric(
    "rota_occurrences",
    "counter",
    ("decision", "reason"),
    "Scheduled times by decision and reason.",
    "occurrences",
)
SCHEDULE_CLAIMS = Metric(
    "rota_schedule_claim_seconds",
    "histogram",
    (),
    "Delay from a scheduled time until its run was enqueued, without catch-up runs.",
    "schedule_claims",
)
SCHEDULE_STARTS = Metric(
    "rota_schedule_lateness_seconds",
    "histogram",
    (),
    "Delay from the time a scheduled run was due until a worker claimed it.",
    "schedule_starts",
)
LINES_STORED = Metric("rota_log_lines", "counter", (), "Log lines stored.", "lines_stored")
LINES_DROPPED = Metric(
    "rota_log_lines_dropped",
    "counter",
    (),
    "Log lines dropped because a buffer was full.",
    "lines_dropped",
)

METRICS = (
    QUEUE_RUNS,
    QUEUE_OLDEST,
    QUEUE_COUNT_AGE,
    QUEUES_PAUSED,
    QUEUE_CAP,
    QUEUE_CAP_WAITING,
    QUEUES_FULL,
    QUEUE_REFUSALS,
    RUNS_DROPPED,
    TENANT_RUNS,
    TENANT_ATTEMPTS,
    TENANTS_PAUSED,
    ATTEMPTS,
    DURATIONS,
    RUNS_ENDED,
    PICKUPS,
    WORKERS,
    SLOTS,
    HEARTBEAT_AGE,
    WORKERS_MEMORY,
    WORKER_MEMORY,
    WORKERS_CPU,
    WORKERS_LOST,
    LATE_ENDS,
    DUPLICATES,
    EVENTS,
    EVENT_RUNS,
    HOOK_REFUSALS,
    LIMIT_IN_USE,
    LIMIT_WAITING,
    RUNS_ADMITTED,
    LIMITS_MENDED,
    LOOP_ERRORS,
    TICKS,
    TICK_AGE,
    SCHEDULES,
    OVERDUE,
    OCCURRENCES,
    SCHEDULE_CLAIMS,
    SCHEDULE_STARTS,
    LINES_STORED,
    LINES_DROPPED,
)
