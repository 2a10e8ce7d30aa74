"""Sequences that stand still, and counters of limits that differed from the runs."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command
from rota.model.attention import Need
from rota.model.words import plural
from rota.store.plans import Plan
from rota.store.reports.attention import LimitTrouble, limit_troubles


def find(limit: int) -> Plan[Found]:
    rows = yield from limit_troubles()
    return Found([_need(row) for row in rows[:limit]], len(rows))


def _need(row: LimitTrouble) -> Need:
    name, tenant = row.name, row.tenant
    if row.what == "blocked":
        waiting = plural(row.keys, "sequence waits", "sequences wait")
        says = f"is blocked: {waiting} for the success of a run"
        reason = f"run {row.run} failed, and the next run requires its success"
        told = command("limits", "unblock", name, tenant=tenant)
    else:
        says = f"counted {row.counted} in use instead of {row.held}, and was corrected"
        reason = "rows were changed without Rota's functions, or this is a bug in Rota"
        told = command("limits", "show", name, tenant=tenant)
    return Need(
        kind=KIND.name,
        state="failed" if row.what == "blocked" else "warn",
        subject="limit",
        name=name,
        noun="Limit",
        says=says,
        reason=reason,
        since=row.since,
        figures={"keys": row.keys, "run": row.run},
        command=told,
        tenant=tenant,
    )


KIND = Kind("limit", "limit", "warn", find)
