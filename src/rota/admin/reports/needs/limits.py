"""Sequences that stand still, and counters of limits that differed from the runs."""

from __future__ import annotations

from datetime import datetime

from rota.admin.reports.needs.kind import Found, Kind, command
from rota.model.attention import Need
from rota.model.words import plural
from rota.store.plans import Ask, Plan


def find(limit: int) -> Plan[Found]:
    rows = yield Ask("attention/limits", {})
    return Found([_need(**row) for row in rows[:limit]], len(rows))


def _need(
    *, name: str, tenant: str, what: str, keys: int, run: int | None, counted: int, held: int,
    since: datetime,
) -> Need:  # fmt: skip
    if what == "blocked":
        waiting = plural(keys, "sequence waits", "sequences wait")
        says = f"is blocked: {waiting} for the success of a run"
        reason = f"run {run} failed, and the next one requires its success"
        told = command("limits", "unblock", name, tenant=tenant)
    else:
        says = f"counted {counted} in use instead of {held}, and was corrected"
        reason = "rows were changed without Rota's functions, or this is a bug in Rota"
        told = command("limits", "show", name, tenant=tenant)
    return Need(
        kind=KIND.name,
        state="failed" if what == "blocked" else "warn",
        subject="limit",
        name=name,
        noun="Limit",
        says=says,
        reason=reason,
        since=since,
        figures={"keys": keys, "run": run},
        command=told,
        tenant=tenant,
    )


KIND = Kind("limit", "limit", "warn", find)
