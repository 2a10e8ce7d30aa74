"""Schedules that cannot be followed: their timing, zone or calendar is broken."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Need
from rota.store.plans import Plan
from rota.store.reports.attention import parked_schedules


def find(limit: int) -> Plan[Found]:
    rows = yield from parked_schedules(limit)
    if not rows:
        return nothing()
    needs = [
        Need(
            kind=KIND.name,
            state="parked",
            subject="schedule",
            name=row.name,
            noun="Schedule",
            says="is parked: it cannot be processed",
            reason=row.error,
            since=row.since,
            tenant=row.tenant,
            command=command("schedules", "show", row.name, tenant=row.tenant),
        )
        for row in rows
    ]
    return Found(needs, rows[0].total)


KIND = Kind("parked_schedule", "schedule", "parked", find)
