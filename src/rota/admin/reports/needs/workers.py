"""Workers that were lost, or do not get their work done."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command
from rota.model.attention import Need
from rota.store.plans import Plan
from rota.store.reports.attention import TroubledWorker, troubled_workers


def find(limit: int) -> Plan[Found]:
    rows = yield from troubled_workers()
    return Found([_need(row) for row in rows[:limit]], len(rows))


def _need(row: TroubledWorker) -> Need:
    state, says, reason = _how(row)
    return Need(
        kind=KIND.name,
        state=state,
        subject="worker",
        name=row.name,
        noun="Worker",
        says=says,
        reason=f"{reason} · {row.host}, process {row.pid}",
        since=row.ended_at if row.state == "lost" else row.heartbeat_at,
        figures={"worker": row.id},
        command=command("workers", "show", str(row.id)),
    )


def _how(row: TroubledWorker) -> tuple[str, str, str]:
    if row.state == "lost":
        return "lost", "was lost", "its lease expired, and its runs went back to the queue"
    if row.is_silent:
        return (
            "lost",
            "is silent",
            "its lease expired, and no other worker is live to rescue its runs",
        )
    if row.is_stuck:
        return "warn", "is stuck", "its event loop is blocked by a handler"
    return "warn", "is failing", str(row.trouble)


KIND = Kind("worker", "worker", "lost", find)
