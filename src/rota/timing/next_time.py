"""Computes when a new or changed schedule is due next, as its first tick would."""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.model.schedule import Schedule
from rota.timing.timing import Timing


def next_time(schedule: Schedule, *, is_unfinished: bool) -> datetime | None:
    """Return the next time; None if it depends on the end of a run or there is none left, which a
    tick determines."""
    if schedule.max_runs is not None and schedule.run_count >= schedule.max_runs:
        return None
    after = _decided_to(schedule)
    if schedule.every_from == "start":
        return Timing.kept(schedule).after(after)
    if is_unfinished:
        return None
    step = timedelta(seconds=schedule.interval_seconds or 1)
    return max(schedule.anchor_at, after) + step


def _decided_to(schedule: Schedule) -> datetime:
    """Return up to when times are decided: by the cursor, by past stretches, and by a pause up to
    its end."""
    ends = [schedule.cursor_at, *[segment.until for segment in schedule.segments]]
    if schedule.paused_until is not None:
        ends.append(schedule.paused_until)
    return max(ends)
