"""Forecasts the load of the coming days: of all schedules, of one hour, and of each schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.errors import TimingError
from rota.model.calendar import CalendarInfo
from rota.model.list_filters import ScheduleFilters
from rota.model.page import Page
from rota.model.planned import Planned
from rota.model.schedule_info import ScheduleInfo
from rota.operations.schedules.times import calendar_of, timing
from rota.postgres.clock import read_clock
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars
from rota.postgres.schedules import lists as schedule_lists
from rota.timing.breath import breathing
from rota.timing.load import MOST_DAYS, HourLoad, LeftOut, Load, PlannedSchedule
from rota.timing.load import hour as hour_of_lines
from rota.timing.load import simulate as simulate_lines
from rota.timing.load_counts import line_starts
from rota.timing.nominal import in_utc
from rota.timing.timing import EPOCH, Timing

MOST_DRAWN = 300
_SECOND = timedelta(seconds=1)
_MICRO = timedelta(microseconds=1)


def simulate(days: int, timezone: str, least: int, filters: ScheduleFilters) -> Plan[Load]:
    if not 1 <= days <= MOST_DAYS:
        raise TimingError(f"days must be from 1 to {MOST_DAYS}, not {days!r}")
    lines, left_out = yield from _lines(filters)
    now = yield from read_clock()
    return simulate_lines(lines, now, days, timezone, least, left_out)


def hour(at: datetime, filters: ScheduleFilters) -> Plan[HourLoad]:
    begin = in_utc(at, "at")
    lines, _ = yield from _lines(filters)
    return hour_of_lines(lines, begin, begin + timedelta(hours=1))


@dataclass(frozen=True, slots=True)
class Lane:
    """The starts of one schedule in a period: the first ones in `times`, and their total
    `count`."""

    schedule: ScheduleInfo
    times: list[datetime]
    count: int


def lanes(after: datetime, hours: int, limit: int, filters: ScheduleFilters) -> Plan[Page[Lane]]:
    """Return the schedules that are due first, with their starts."""
    begin = in_utc(after, "after")
    known = {calendar.name: calendar for calendar in (yield from calendars.list_calendars())}
    found = yield from schedule_lists.page_schedules(
        order="next", cursor=None, limit=limit, **filters
    )
    end = begin + timedelta(hours=hours)
    return Page([_lane(schedule, begin, end, known) for schedule in found.items], found.cursor)


def _lane(
    one: ScheduleInfo, begin: datetime, end: datetime, known: Mapping[str, CalendarInfo]
) -> Lane:
    if one.init is not None or one.state not in ("active", "pending"):
        return Lane(one, [], 0)
    try:
        closed = calendar_of(known.get(one.calendar or "")) if one.calendar else None
        skipped = closed if one.on_closed == "skip" else None
        line = PlannedSchedule(one.name, timing(one), calendar=skipped)
        at = line_starts(line, begin - _MICRO, end - _MICRO)
    except TimingError:
        return Lane(one, [], 0)
    return Lane(one, [EPOCH + second * _SECOND for second in at[:MOST_DRAWN]], len(at))


def _lines(filters: ScheduleFilters) -> Plan[tuple[list[PlannedSchedule], list[LeftOut]]]:
    known = {calendar.name: calendar for calendar in (yield from calendars.list_calendars())}
    found = yield from schedule_lists.read_planned(filters)
    return lines_of(found, known)


def lines_of(
    found: Iterable[Planned], known: Mapping[str, CalendarInfo]
) -> tuple[list[PlannedSchedule], list[LeftOut]]:
    """Return the schedules whose times can be computed, and the others."""
    followed: list[PlannedSchedule] = []
    left_out: list[LeftOut] = []
    for schedule in breathing(found):
        try:
            closed = calendar_of(known.get(schedule.calendar or "")) if schedule.calendar else None
            followed.append(
                PlannedSchedule(
                    schedule.full_name,
                    Timing.kept(schedule),
                    schedule.jitter_seconds,
                    closed if schedule.on_closed == "skip" else None,
                    schedule.avg_duration_ms,
                    schedule.max_duration_ms_7d or schedule.max_duration_ms,
                )
            )
        except TimingError as error:
            left_out.append(LeftOut(schedule.full_name, str(error)))
    return followed, left_out
