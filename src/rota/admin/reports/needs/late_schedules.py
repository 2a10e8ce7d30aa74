"""Schedules whose time has come, and nobody has decided about it."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Need
from rota.model.words import plural
from rota.store.plans import Plan
from rota.store.reports.attention import LateSchedule, late_schedules


def find(limit: int) -> Plan[Found]:
    rows = yield from late_schedules(limit)
    return Found([_need(row) for row in rows], rows[0].total) if rows else nothing()


def _need(row: LateSchedule) -> Need:
    nobody = "no worker is live to process it"
    busy = f"{plural(row.workers, 'worker')} live, none has processed it"
    return Need(
        kind=KIND.name,
        state="late",
        subject="schedule",
        name=row.name,
        noun="Schedule",
        says="has no next time yet" if row.is_pending else "is late",
        reason=busy if row.workers else nobody,
        since=row.since,
        tenant=row.tenant,
        command=command("schedules", "show", row.name, tenant=row.tenant),
    )


KIND = Kind("late_schedule", "schedule", "late", find)
