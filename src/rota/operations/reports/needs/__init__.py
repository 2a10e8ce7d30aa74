"""The kinds of items that may need attention, the most severe first.

A kind reads its rows with a statement of `postgres/sql/attention/` and turns each into a sentence.
A new kind is a row here, a function for its sentence, and a test that provokes it.
"""

from __future__ import annotations

from functools import partial

from rota.model.attention import LEAST_SLOW_SECONDS
from rota.operations.reports.needs import lanes, schedules, work
from rota.operations.reports.needs.kind import Kind, every, first
from rota.postgres.queues import list_queues
from rota.postgres.reports import attention as rows

_PAUSED = partial(list_queues, paused=True, order="longest")
_SLOW = partial(rows.slow_runs, LEAST_SLOW_SECONDS)

KINDS: tuple[Kind, ...] = (
    Kind("unserved_work", "job", "failed", work.unserved),
    Kind("failing_job", "job", "failed", work.failing),
    Kind("refused_payload", "job", "failed", every(rows.refused_payloads, work.refused)),
    Kind("worker", "worker", "lost", every(rows.troubled_workers, work.troubled)),
    Kind("full_queue", "queue", "failed", every(rows.full_queues, lanes.full)),
    Kind("paused_queue", "queue", "paused", every(_PAUSED, lanes.paused)),
    Kind("paused_tenant", "tenant", "paused", first(rows.paused_tenants, lanes.paused_tenant)),
    Kind("limit", "limit", "warn", every(rows.limit_troubles, lanes.limit)),
    Kind("parked_schedule", "schedule", "parked", first(rows.parked_schedules, schedules.parked)),
    Kind(
        "stopped_schedule", "schedule", "paused", first(rows.stopped_schedules, schedules.stopped)
    ),
    Kind(
        "orphaned_schedule", "schedule", "warn", first(rows.orphaned_schedules, schedules.orphaned)
    ),
    Kind("late_schedule", "schedule", "late", first(rows.late_schedules, schedules.late)),
    Kind("missed_schedule", "schedule", "missed", first(rows.missed_schedules, schedules.missed)),
    Kind("slow_run", "run", "warn", every(_SLOW, work.slow)),
)
