"""Named sets of days and hours on which schedules do not run; data only, shared by schedules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo

from rota.errors import TimingError
from rota.timing.nominal import in_utc
from rota.timing.once import instant_of
from rota.timing.windows import (
    WEEKDAYS,
    WEEKEND,
    DailyWindow,
    Weekday,
    Window,
    weekdays,
)
from rota.timing.zones import wall_at, zone

# Two years: enough for any set of holidays. It also bounds the search in a calendar without an
# allowed day.
MAX_DAYS = 731


@dataclass(frozen=True, slots=True)
class Calendar:
    """Holidays, weekends and windows, all by the clocks of one zone.

    `weekends` is True for Saturday and Sunday, or the days that are off where you are. Holidays and
    weekends are whole local days; windows are blackout or maintenance times.
    """

    name: str
    timezone: str = "UTC"
    holidays: frozenset[date] = frozenset()
    weekends: frozenset[Weekday] = frozenset()
    windows: tuple[Window, ...] = ()
    tz: tzinfo = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: str,
        timezone: str = "UTC",
        holidays: Iterable[date] = (),
        weekends: bool | Collection[str] = False,
        windows: Iterable[Window] = (),
    ) -> None:
        if not str(name or "").strip():
            raise TimingError("a calendar needs a name")
        put = object.__setattr__
        put(self, "name", name)
        put(self, "timezone", timezone)
        put(self, "holidays", frozenset(_plain_dates(holidays)))
        put(self, "weekends", _days_off(weekends))
        put(self, "windows", tuple(_checked(windows)))
        put(self, "tz", zone(timezone))

    def is_allowed(self, instant: datetime) -> bool:
        return self.reason_against(instant) is None

    def reason_against(self, instant: datetime) -> str | None:
        """Return why nothing starts at that instant, worded for the ledger; None if it is
        allowed."""
        at = in_utc(instant, "instant")
        wall = wall_at(at, self.tz)
        if wall.date() in self.holidays:
            return f"{self.name}: {wall.date()} is a holiday"
        if WEEKDAYS[wall.weekday()] in self.weekends:
            return f"{self.name}: {wall.date()} is a {wall:%A}"
        for window in self.windows:
            if window.covers(wall if isinstance(window, DailyWindow) else at):
                return f"{self.name}: within the window {window}"
        return None

    def next_allowed_day(self, instant: datetime, tz: tzinfo | None = None) -> datetime | None:
        """Return the same local time on the first later day that is allowed; None if there is none.

        The local time is that of `tz` (the schedule's zone), else of the calendar's zone.
        """
        return next_allowed_day(instant, [self], tz or self.tz)


def next_allowed_day(
    instant: datetime, calendars: Sequence[Calendar], tz: tzinfo
) -> datetime | None:
    """Return the same local time on the first later day that all the calendars allow."""
    wall = wall_at(in_utc(instant, "instant"), tz)
    for days in range(1, MAX_DAYS + 1):
        at = instant_of(wall + timedelta(days=days), tz)
        if all(calendar.is_allowed(at) for calendar in calendars):
            return at
    return None


def reason_against(instant: datetime, calendars: Iterable[Calendar]) -> str | None:
    """Return the first reason that any of the calendars has."""
    reasons = (calendar.reason_against(instant) for calendar in calendars)
    return next((reason for reason in reasons if reason), None)


def _plain_dates(days: Iterable[date]) -> Iterable[date]:
    for day in days:
        # A datetime is an instance of date but equals none: it would never match.
        if isinstance(day, datetime) or not isinstance(day, date):
            raise TimingError(f"a holiday must be a date, not {day!r}")
        yield day


def _checked(windows: Iterable[Window]) -> Iterable[Window]:
    for window in windows:
        if not isinstance(window, Window):
            raise TimingError(f"a window must be a DailyWindow or a DatedWindow, not {window!r}")
        yield window


def _days_off(weekends: bool | Collection[str]) -> frozenset[Weekday]:
    if isinstance(weekends, bool):
        return WEEKEND if weekends else frozenset()
    return weekdays(weekends)
