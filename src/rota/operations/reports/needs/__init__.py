"""The kinds of items that may need attention, the most severe first.

A kind reads its rows with a statement of `postgres/sql/attention/` and turns each into a sentence.
A new kind is a line here, a row type in `postgres/reports/attention.py`, a function for its
sentence, and a test that provokes it.
"""

from __future__ import annotations

from functools import partial

from rota.model.attention import LEAST_SLOW_SECONDS
from rota.operations.reports.needs import lanes, schedules, work
from rota.operations.reports.needs.kind import Kind, every, first
from rota.postgres.plans import rows_of
from rota.postgres.queues import list_queues
from rota.postgres.reports import attention as rows

_PAUSED = partial(list_queues, paused=True, order="longest")
_SLOW = partial(rows_of, rows.SlowRun, is_large=True, least=LEAST_SLOW_SECONDS)
_REFUSED = every(partial(rows_of, rows.RefusedPayloads), work.refused)
_TROUBLED = every(partial(rows_of, rows.TroubledWorker), work.troubled)
_FULL = every(partial(rows_of, rows.FullQueue), lanes.full)
_LIMITS = every(partial(rows_of, rows.LimitTrouble), lanes.limit)
_TENANTS = first(rows.PausedTenant, lanes.paused_tenant)
_PARKED = first(rows.ParkedSchedule, schedules.parked)
_STOPPED = first(rows.StoppedSchedule, schedules.stopped)
_ORPHANED = first(rows.OrphanedSchedule, schedules.orphaned)
_LATE = first(rows.LateSchedule, schedules.late)
_MISSED = first(rows.MissedSchedule, schedules.missed)

# Name, subject, state, rows and sentences; what one and several of them are called.
KINDS: tuple[Kind, ...] = (
    Kind(
        "unserved_work",
        "job",
        "failed",
        work.unserved,
        "job without a worker",
        "jobs without a worker",
    ),
    Kind("failing_job", "job", "failed", work.failing, "failing job", "failing jobs"),
    Kind(
        "refused_payload",
        "job",
        "failed",
        _REFUSED,
        "job with refused payloads",
        "jobs with refused payloads",
    ),
    Kind("worker", "worker", "lost", _TROUBLED, "worker with problems", "workers with problems"),
    Kind("full_queue", "queue", "failed", _FULL, "full queue", "full queues"),
    Kind(
        "paused_queue",
        "queue",
        "paused",
        every(_PAUSED, lanes.paused),
        "paused queue",
        "paused queues",
    ),
    Kind("paused_tenant", "tenant", "paused", _TENANTS, "paused tenant", "paused tenants"),
    Kind(
        "limit",
        "limit",
        "warn",
        _LIMITS,
        "limit blocked or corrected",
        "limits blocked or corrected",
    ),
    Kind("parked_schedule", "schedule", "parked", _PARKED, "parked schedule", "parked schedules"),
    Kind(
        "stopped_schedule",
        "schedule",
        "paused",
        _STOPPED,
        "schedule paused by Rota",
        "schedules paused by Rota",
    ),
    Kind(
        "orphaned_schedule",
        "schedule",
        "warn",
        _ORPHANED,
        "schedule without its job",
        "schedules without their job",
    ),
    Kind("late_schedule", "schedule", "late", _LATE, "late schedule", "late schedules"),
    Kind("missed_schedule", "schedule", "missed", _MISSED, "missed schedule", "missed schedules"),
    Kind("slow_run", "run", "warn", every(_SLOW, work.slow), "slow run", "slow runs"),
)
