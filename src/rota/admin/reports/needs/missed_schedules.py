"""Schedules of which times were missed and not made good."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Need
from rota.model.words import number
from rota.store.plans import Plan
from rota.store.reports.attention import MissedSchedule, missed_schedules

_WHY = {
    "policy none": "no worker was running, and its policy is not to catch up",
    "window": "no worker was running, and the time is older than its catch-up window",
    "cap": "more times were missed than its catch-up limit allows",
}


def find(limit: int) -> Plan[Found]:
    rows = yield from missed_schedules(limit)
    return Found([_need(row) for row in rows], rows[0].total) if rows else nothing()


def _need(row: MissedSchedule) -> Need:
    times = "once" if row.times == 1 else f"{number(row.times)} times"
    span = (row.since.isoformat(), row.last_at.isoformat())
    name, tenant = row.name, row.tenant
    fill = command(
        "schedules", "backfill", name, "--from", span[0], "--until", span[1], tenant=tenant
    )
    return Need(
        kind=KIND.name,
        state="missed",
        subject="schedule",
        name=name,
        noun="Schedule",
        says=f"was missed {times}",
        reason=_WHY.get(row.why, row.why),
        since=row.since,
        tenant=tenant,
        figures={"times": row.times, "last_at": row.last_at},
        command=fill,
    )


KIND = Kind("missed_schedule", "schedule", "missed", find)
