"""Who edits a schedule in Python knows its next time at once: SQL cannot compute cron, we can."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import msgspec

from rota.errors import TimingError
from rota.model.schedule import Schedule
from rota.store import schedules
from rota.store.plans import Plan
from rota.timing.next_time import next_time


def compute_next(name: str | None = None, tenant: str = "") -> Plan[None]:
    """Of one schedule, or of all that wait for a tick to do it."""
    times: list[tuple[int, int, datetime]] = []
    for row in (yield from schedules.read_pending(name, tenant)):
        at = None
        with suppress(TimingError, msgspec.ValidationError, OverflowError):
            # The tick parks what cannot be followed.
            at = next_time(Schedule.read(row["schedule"]), is_unfinished=row["is_unfinished"])
        if at is not None:
            times.append((row["id"], row["version"], at))
    yield from schedules.set_next(times)
