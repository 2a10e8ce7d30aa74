"""Schedules in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rota.model.formatting import number, plural
from rota.operations.command_line import line_of, of_tenant
from rota.operations.reports.needs.kind import AttentionText
from rota.postgres.reports.attention import (
    LateSchedule,
    MissedSchedule,
    OrphanedSchedule,
    ParkedSchedule,
    StoppedSchedule,
)

_WHY = {
    "disabled": "no worker was running before it was disabled",
    "paused": "no worker was running before it was paused",
    "policy none": "no worker was running, and its policy is not to catch up",
    "window": "no worker was running, and the time is older than its catch-up window",
    "cap": "more times were missed than its catch-up limit allows",
}


def parked(row: ParkedSchedule) -> AttentionText:
    return _words(row, "is parked: it cannot be processed", row.error, row.since)


def stopped(row: StoppedSchedule) -> AttentionText:
    return _words(row, "has been paused by Rota", row.pause_reason, row.since, verb="resume")


def orphaned(row: OrphanedSchedule) -> AttentionText:
    return _words(row, f"skips its times: no code declares job {row.job}", None, row.since)


def late(row: LateSchedule) -> AttentionText:
    busy = f"{plural(row.workers, 'worker')} live, none has processed it"
    return _words(
        row,
        "has no next time yet" if row.is_pending else "is late",
        busy if row.workers else "no worker is live to process it",
        row.since,
    )


def missed(row: MissedSchedule) -> AttentionText:
    times = "once" if row.times == 1 else f"{number(row.times)} times"
    span = {"from_at": row.since.isoformat(), "until_at": row.last_at.isoformat()}
    figures = {"times": row.times, "last_at": row.last_at}
    why = _WHY.get(row.why, row.why)
    return _words(row, f"was missed {times}", why, row.since, span, verb="backfill", **figures)


def _words(
    row: Any,
    says: str,
    reason: str | None,
    since: datetime | None,
    options: Mapping[str, Any] | None = None,
    verb: str = "get",
    **figures: Any,
) -> AttentionText:
    line = line_of("schedules", verb, row.name, **of_tenant(row.tenant), **(options or {}))
    return AttentionText(row.name, says, reason, since, line, figures, row.tenant)
