"""Tenants that somebody has paused, and that have something to do."""

from __future__ import annotations

from datetime import UTC

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Need
from rota.model.words import plural
from rota.store.plans import Plan
from rota.store.reports.attention import PausedTenant, paused_tenants


def find(limit: int) -> Plan[Found]:
    rows = yield from paused_tenants(limit)
    return Found([_need(row) for row in rows], rows[0].total) if rows else nothing()


def _need(row: PausedTenant) -> Need:
    why = f": “{row.pause_reason}”" if row.pause_reason else ""
    until = row.paused_until
    end = f"until {until.astimezone(UTC):%d %b, %H:%M} UTC" if until else "no end set"
    return Need(
        kind=KIND.name,
        state="paused",
        subject="tenant",
        name=row.name,
        noun="Tenant",
        says=f"is paused: {plural(row.waiting, 'run waits', 'runs wait')}",
        reason=f"by {row.paused_by or 'somebody'}{why}, {end}",
        since=row.paused_at,
        figures={"waiting": row.waiting},
        command=command("tenants", "resume", row.name),
    )


KIND = Kind("paused_tenant", "tenant", "paused", find)
