"""The times of a schedule that operators request: coming ones, and those to backfill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta

from rota.errors import TimingError
from rota.model.calendar import CalendarInfo
from rota.model.schedule_info import ScheduleInfo
from rota.postgres.schedules.lists import timing_of
from rota.timing.calendar import Calendar
from rota.timing.calendar_json import from_json
from rota.timing.preview import PreviewRow, preview
from rota.timing.timing import Timing
from rota.timing.zones import zone

MOST_BACKFILLED = 10_000
_TICK = timedelta(microseconds=1)
_YEAR = timedelta(days=366)


def timing(schedule: ScheduleInfo) -> Timing:
    """Raise TimingError for a schedule without nominal times."""
    if schedule.init is not None:
        raise TimingError(
            f'schedule "{schedule.name}" runs when workers start and has no set times'
        )
    # Not asdict(): it copies deeply, which takes longer than computing the times of a day.
    return timing_of({field.name: getattr(schedule, field.name) for field in fields(schedule)})


def calendar_of(stored: CalendarInfo | None) -> Calendar | None:
    if stored is None:
        return None
    if not isinstance(stored.definition, Mapping):
        raise TimingError(f"calendar {stored.name!r} is not an object")
    return from_json({**stored.definition, "name": stored.name})


def coming(
    rows_of: Timing,
    after: datetime,
    *,
    count: int | None,
    until: datetime | None,
    viewer_zone: str | None,
    calendar: Calendar | None = None,
    on_closed: str = "skip",
) -> list[PreviewRow]:
    """Return the next times; those at which the calendar is closed are marked."""
    wanted = 10 if count is None and until is None else count
    rows = preview(rows_of, after, wanted, until, viewer_zone)
    if calendar is None:
        return rows
    return [_closed(row, rows_of, calendar, on_closed) for row in rows]


def _closed(row: PreviewRow, timing: Timing, calendar: Calendar, on_closed: str) -> PreviewRow:
    reason = calendar.reason_against(row.at)
    if reason is None:
        return row
    moved = calendar.next_allowed_day(row.at, timing.tz) if on_closed == "next_day" else None
    what = "skipped" if moved is None else f"runs at {moved.astimezone(timing.tz):%Y-%m-%d %H:%M}"
    note = "; ".join(part for part in (row.note, f"{reason}, {what}") if part)
    return replace(row, note=note, is_skipped=moved is None)


def moved_first(
    rows: list[PreviewRow], at: datetime, schedule: ScheduleInfo, viewer_zone: str | None
) -> list[PreviewRow]:
    """Return the instant that an operator set, then regular times up to the limit. A single time
    does not recur."""
    viewer = at.astimezone(zone(viewer_zone)) if viewer_zone else None
    first = PreviewRow(at, at.astimezone(zone(schedule.timezone)), viewer, "set by an operator")
    regular = [] if schedule.run_at is not None else rows
    return [first, *regular][: max(1, len(rows))]


def to_fill(
    schedule: ScheduleInfo, from_at: datetime, until_at: datetime, calendar: Calendar | None
) -> list[datetime]:
    """Return the nominal times of a past period that the calendar allows."""
    if schedule.every_from == "end":
        raise TimingError(
            f'schedule "{schedule.name}" counts from the end of its last run, '
            "so it has no past times to backfill"
        )
    found = timing(schedule).between(from_at - _TICK, until_at, MOST_BACKFILLED + 1)
    if len(found) > MOST_BACKFILLED:
        raise TimingError(
            f"the range contains more than {MOST_BACKFILLED:,} times of {schedule.name}",
            hint="backfill it in several parts",
        )
    return [time.at for time in found if calendar is None or calendar.is_allowed(time.at)]


def intervals(schedule: ScheduleInfo, times: Sequence[datetime]) -> list[datetime | None]:
    """Return for each time the nominal time before it, at which its data begins."""
    if not times:
        return []
    rule = timing(schedule)
    earlier = rule.latest_between(times[0] - _YEAR, times[0] - _TICK)
    listed = rule.between(times[0] - _TICK, times[-1], MOST_BACKFILLED)
    before: dict[datetime, datetime | None] = {}
    previous = earlier.at if earlier else None
    for nominal in listed:
        before[nominal.at] = previous
        previous = nominal.at
    return [before.get(at) for at in times]
