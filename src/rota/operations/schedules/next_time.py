"""Computes the next time of a schedule right after an edit in Python; SQL cannot compute cron."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from rota.errors import TimingError
from rota.postgres.plans import Plan
from rota.postgres.schedules import next_times


def compute_next(name: str | None = None, tenant: str = "") -> Plan[None]:
    """Compute the next time of one schedule, or of all that wait for a tick to do it."""
    times: list[tuple[int, int, datetime]] = []
    for row in (yield from next_times.read_pending(name, tenant)):
        at = _next_of(row["schedule"], row["is_unfinished"])
        if at is not None:
            times.append((row["id"], row["tick_version"], at))
    yield from next_times.set_next(times)


def _next_of(stored: Any, is_unfinished: bool) -> datetime | None:
    # Imported here: every application comes here at its start, and few have something to compute.
    from rota.model.schedule import Schedule
    from rota.timing.next_time import next_time

    with suppress(TimingError, msgspec.ValidationError, OverflowError):
        # The tick parks a schedule whose timing cannot be computed.
        return next_time(Schedule.read(stored), is_unfinished=is_unfinished)
    return None
