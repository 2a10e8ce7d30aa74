"""What may need somebody: one kind a module, with a statement of its own in `store/sql/attention/`.

A kind finds how many there are of it, and the first few as sentences. A new one is a module here,
its place in KINDS (the worst first), and a test that provokes it.
"""

from __future__ import annotations

from rota.admin.reports.needs import (
    failing_jobs,
    full_queues,
    late_schedules,
    limits,
    missed_schedules,
    parked_schedules,
    paused_queues,
    paused_tenants,
    slow_runs,
    stopped_schedules,
    unserved,
    workers,
)
from rota.admin.reports.needs.kind import Kind

KINDS: tuple[Kind, ...] = (
    unserved.KIND,
    failing_jobs.KIND,
    workers.KIND,
    full_queues.KIND,
    paused_queues.KIND,
    paused_tenants.KIND,
    limits.KIND,
    parked_schedules.KIND,
    stopped_schedules.KIND,
    late_schedules.KIND,
    missed_schedules.KIND,
    slow_runs.KIND,
)
