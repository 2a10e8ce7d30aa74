"""Computes all nominal times of a timing in a period, by arithmetic.

A simulation of thousands of schedules needs millions of them; stepping from one to the next would
take minutes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from rota.timing.cron import CronRule
from rota.timing.interval import IntervalRule
from rota.timing.nominal import LATEST
from rota.timing.timing import EPOCH, Timing
from rota.timing.zones import offset_at, shifts, steady_until

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_MICRO = timedelta(microseconds=1)


def starts(timing: Timing, after: datetime, until: datetime, most: int) -> array[int]:
    """Return the times in (after, until] as whole seconds since 1970, oldest first, at most
    `most`."""
    floor, ceiling = timing.clipped(after, until)
    if ceiling <= floor:
        return array("q")
    rule = timing.rule
    if isinstance(rule, IntervalRule):
        return _interval(rule, floor, min(ceiling, LATEST - _MICRO), most)
    if isinstance(rule, CronRule) and not (rule.is_fixed and _has_shift(rule, floor, ceiling)):
        return _cron(rule, floor, ceiling, most)
    listed = timing.between(after, until, most)
    return array("q", (_seconds(nominal.at) for nominal in listed))


def _seconds(at: datetime) -> int:
    return (at - EPOCH) // _SECOND


def _interval(rule: IntervalRule, floor: datetime, ceiling: datetime, most: int) -> array[int]:
    step, anchor = rule.step // _MICRO, (rule.anchor - EPOCH) // _MICRO
    first = ((floor - rule.anchor) // rule.step) + 1
    last = (ceiling - rule.anchor) // rule.step
    numbers = range(first, min(last + 1, first + most))
    if step % 1_000_000 == 0 and anchor % 1_000_000 == 0:
        whole, start = step // 1_000_000, anchor // 1_000_000
        return array("q", range(start + first * whole, start + numbers.stop * whole, whole))
    return array("q", [(anchor + number * step) // 1_000_000 for number in numbers])


def _has_shift(rule: CronRule, floor: datetime, ceiling: datetime) -> bool:
    """Return whether a clock change is near, where the policies decide; elsewhere a local time is
    one instant."""
    low, high = floor - 2 * _DAY, min(ceiling, LATEST - 3 * _DAY) + 2 * _DAY
    return any(
        low <= shift.at <= high
        for year in range(low.year, high.year + 1)
        for shift in shifts(rule.tz, year)
    )


def _cron(rule: CronRule, floor: datetime, ceiling: datetime, most: int) -> array[int]:
    found = array("q")
    at = floor
    while at < ceiling and len(found) < most:
        # The first second determines the offset: `at` itself may belong to the stretch before.
        first = at.replace(microsecond=0) + _SECOND
        end = steady_until(first, rule.tz)
        _add(found, rule, first, min(end - _SECOND, ceiling), most)
        at = end - _SECOND
    return found[:most]


def _add(found: array[int], rule: CronRule, first: datetime, last: datetime, most: int) -> None:
    """Add the times from one second to another, between which the zone's offset is constant."""
    if last < first:
        return
    offset = offset_at(first, rule.tz)
    low, high = _seconds(first), _seconds(last)
    day = (first + offset).replace(tzinfo=None).date()
    final = (last + offset).replace(tzinfo=None).date()
    clock = _clock(rule.expression, rule.with_seconds)
    midnight = _seconds(datetime(day.year, day.month, day.day, tzinfo=UTC)) - offset // _SECOND
    while day <= final and len(found) < most:
        if _matches(rule, day):
            begin = bisect_left(clock, low - midnight) if midnight < low else 0
            end = bisect_right(clock, high - midnight) if midnight + 86_400 > high else len(clock)
            found.extend([midnight + second for second in clock[begin:end]])
        if day == date.max:
            return
        day += _DAY
        midnight += 86_400


def _matches(rule: CronRule, day: date) -> bool:
    return day.month in rule.sim.months and rule.sim.match_day(day)


@lru_cache(maxsize=4096)
def _clock(expression: str, with_seconds: bool) -> list[int]:
    """Return the seconds of a day at which the expression matches."""
    sim = CronRule(expression, UTC, with_seconds=with_seconds).sim
    return sorted(
        hour * 3600 + minute * 60 + second
        for hour in sim.hours
        for minute in sim.minutes
        for second in sim.seconds
    )
