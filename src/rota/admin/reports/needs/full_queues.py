"""Queues that have as much waiting as they may."""

from __future__ import annotations

from datetime import datetime

from rota.admin.reports.needs.kind import Found, Kind, command
from rota.model.attention import Need
from rota.model.words import number, plural
from rota.store.plans import Ask, Plan


def find(limit: int) -> Plan[Found]:
    rows = yield Ask("attention/full_queues", {})
    return Found([_need(**row) for row in rows[:limit]], len(rows))


def _need(
    *, name: str, waiting: int, max_waiting: int, when_full: str, full_since: datetime
) -> Need:
    wait = plural(waiting, "run waits", "runs wait")
    refuses = when_full == "refuse"
    return Need(
        kind=KIND.name,
        state="failed" if refuses else "warn",
        subject="queue",
        name=name,
        noun="Queue",
        says=f"is full: {wait}, the cap is {number(max_waiting)}",
        reason="new runs are refused"
        if refuses
        else "the runs with the lowest priority are dropped",
        since=full_since,
        figures={"waiting": waiting, "max_waiting": max_waiting},
        command=command("queues", "show", name),
    )


KIND = Kind("full_queue", "queue", "failed", find)
