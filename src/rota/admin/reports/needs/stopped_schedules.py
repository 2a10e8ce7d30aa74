"""Schedules that Rota has paused because their runs failed in a row."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Need
from rota.store.plans import Plan
from rota.store.reports.attention import stopped_schedules


def find(limit: int) -> Plan[Found]:
    rows = yield from stopped_schedules(limit)
    if not rows:
        return nothing()
    needs = [
        Need(
            kind=KIND.name,
            state="paused",
            subject="schedule",
            name=row.name,
            noun="Schedule",
            says="has been paused by Rota",
            reason=row.pause_reason,
            since=row.since,
            tenant=row.tenant,
            command=command("schedules", "resume", row.name, tenant=row.tenant),
        )
        for row in rows
    ]
    return Found(needs, rows[0].total)


KIND = Kind("stopped_schedule", "schedule", "paused", find)
