"""Finds the newest of many times, without listing all earlier ones."""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.timing.timing import Timing

# Periods before the end that are searched in turn.
_LOOKS = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366))
_NO_LIMIT = 10**9


def first_of_newest(
    timing: Timing, after: datetime, until: datetime, count: int
) -> datetime | None:
    """Return where the newest `count` times in (after, until] begin; None if there are no more than
    `count`."""
    if timing.interval is not None:
        last = timing.latest_between(after, until)
        if last is None or timing.count_between(after, until) <= count:
            return None
        return last.at - (count - 1) * timing.interval
    for look in _LOOKS:
        found = timing.between(max(after, until - look), until, _NO_LIMIT)
        if len(found) > count:
            return found[-count].at
        if until - look <= after:
            return None
    found = timing.between(after, until, _NO_LIMIT)
    return found[-count].at if len(found) > count else None
