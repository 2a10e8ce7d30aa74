"""Queues that have as much waiting as they may."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command
from rota.model.attention import Need
from rota.model.words import number, plural
from rota.store.plans import Plan
from rota.store.reports.attention import FullQueue, full_queues


def find(limit: int) -> Plan[Found]:
    rows = yield from full_queues()
    return Found([_need(row) for row in rows[:limit]], len(rows))


def _need(row: FullQueue) -> Need:
    wait = plural(row.waiting, "run waits", "runs wait")
    refuses = row.when_full == "refuse"
    return Need(
        kind=KIND.name,
        state="failed" if refuses else "warn",
        subject="queue",
        name=row.name,
        noun="Queue",
        says=f"is full: {wait}, the cap is {number(row.max_waiting)}",
        reason="new runs are refused"
        if refuses
        else "the runs with the lowest priority are dropped",
        since=row.full_since,
        figures={"waiting": row.waiting, "max_waiting": row.max_waiting},
        command=command("queues", "show", row.name),
    )


KIND = Kind("full_queue", "queue", "failed", find)
