"""The window of statistics about the past: which minute, hour and day roll-ups are read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from rota.errors import InputError
from rota.model.field_values import past_instant
from rota.model.fields import Moment

Unit = Literal["minute", "hour", "day"]
UNITS: dict[Unit, int] = {"minute": 60, "hour": 3600, "day": 86_400}

DEFAULT = timedelta(hours=1)
LONGEST = timedelta(days=400)
MOST_STEPS = 1500
# By minute, a hundred jobs have a hundred rows a minute: for longer ranges whole hours are read.
_BY_MINUTE = timedelta(hours=2)
_BY_HOUR = timedelta(days=62)
_STEPS = (60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)
_USUAL_STEPS = 125


@dataclass(frozen=True, slots=True)
class StatsWindow:
    """A range in whole units: it contains the requested range, and at its ends up to a unit more.

    Of [since, until) the days [first_day, last_day) are whole.
    """

    since: datetime
    until: datetime
    unit: Unit
    first_day: datetime
    last_day: datetime

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()

    def elapsed(self, now: datetime) -> float:
        """Return the seconds of the range that have passed: its last unit may have just begun."""
        return max(1.0, (min(self.until, now) - self.since).total_seconds())


def whole(since: datetime, until: datetime) -> StatsWindow:
    """Return the window for sums over the range: the longer it is, the coarser are its ends."""
    length = until - since
    unit: Unit = "minute" if length <= _BY_MINUTE else "hour" if length <= _BY_HOUR else "day"
    return _window(since, until, unit)


def stepped(range_: StatsWindow, step: float | None) -> tuple[StatsWindow, int]:
    """Return the window and the step in seconds for a series of the same range."""
    length = range_.seconds
    if step is None:
        step = next((size for size in _STEPS if length / size <= _USUAL_STEPS), _STEPS[-1])
    if step < 60 or step % 60:
        raise InputError(f"a step must be a whole number of minutes, not {step:g} s")
    if length / step > MOST_STEPS:
        raise InputError(
            f"{int(length / step)} steps of {step:g} s are more than {MOST_STEPS}",
            hint="choose longer steps or a shorter range",
        )
    unit: Unit = "day" if step % 86_400 == 0 else "hour" if step % 3600 == 0 else "minute"
    return _window(range_.since, range_.until, unit), int(step)


def bounds(since: Moment | None, until: Moment | None, now: datetime) -> tuple[datetime, datetime]:
    """Return the requested range, checked; the last hour by default."""
    end = past_instant(until, now) or now
    start = past_instant(since, end) or end - DEFAULT
    if start.utcoffset() is None or end.utcoffset() is None:
        raise InputError("since and until need a time zone")
    if start >= end:
        raise InputError("since must be before until, and not in the future")
    if end - start > LONGEST:
        raise InputError(f"statistics are kept for {LONGEST.days} days; choose a shorter range")
    return start.astimezone(UTC), end.astimezone(UTC)


def _window(since: datetime, until: datetime, unit: Unit) -> StatsWindow:
    start, end = _floor(since, unit), _ceil(until, unit)
    first, last = _ceil(start, "day"), _floor(end, "day")
    if unit == "minute" or first >= last:
        first = last = end
    return StatsWindow(start, end, unit, first, last)


def _floor(at: datetime, unit: Unit) -> datetime:
    seconds = UNITS[unit]
    return datetime.fromtimestamp(int(at.timestamp() // seconds) * seconds, UTC)


def _ceil(at: datetime, unit: Unit) -> datetime:
    floor = _floor(at, unit)
    return floor if floor == at else floor + timedelta(seconds=UNITS[unit])
