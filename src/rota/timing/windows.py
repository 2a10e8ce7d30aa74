"""Windows in which nothing may start: daily, weekly, or on certain dates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final, Literal, cast, get_args

from rota.errors import TimingError
from rota.timing.nominal import in_utc

# By name, because cron (0 is Sunday) and Python (0 is Monday) number days differently.
Weekday = Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
WEEKDAYS: Final[tuple[Weekday, ...]] = get_args(Weekday)
ALL_WEEK: Final = frozenset(WEEKDAYS)
WEEKEND: Final[frozenset[Weekday]] = frozenset({"SAT", "SUN"})


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """From `start` up to but not including `end`, by the calendar's clocks.

    An end at or before the start is on the following day; `weekdays` are those of the start.
    """

    start: time
    end: time
    weekdays: frozenset[Weekday] = ALL_WEEK

    def __post_init__(self) -> None:
        if self.start.tzinfo or self.end.tzinfo:
            raise TimingError(
                "the times of a window are in the calendar's time zone: omit the offset"
            )
        object.__setattr__(self, "weekdays", weekdays(self.weekdays))
        if not self.weekdays:
            raise TimingError("a window needs at least one weekday")

    def covers(self, wall: datetime) -> bool:
        clock, today = wall.time(), WEEKDAYS[wall.weekday()]
        if self.start < self.end:
            return today in self.weekdays and self.start <= clock < self.end
        yesterday = WEEKDAYS[(wall - timedelta(days=1)).weekday()]
        is_evening = today in self.weekdays and clock >= self.start
        return is_evening or (yesterday in self.weekdays and clock < self.end)

    def __str__(self) -> str:
        days = [day for day in WEEKDAYS if day in self.weekdays]
        text = f"{short(self.start)}-{short(self.end)}"
        return text if len(days) == 7 else f"{text} on {', '.join(days)}"


@dataclass(frozen=True, slots=True)
class DatedWindow:
    """From one instant up to but not including another."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", in_utc(self.start, "the start of a window"))
        object.__setattr__(self, "end", in_utc(self.end, "the end of a window"))
        if self.end <= self.start:
            raise TimingError(f"a window ends before it starts: {self}")

    def covers(self, at: datetime) -> bool:
        return self.start <= at < self.end

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"


Window = DailyWindow | DatedWindow


def weekdays(names: Iterable[str]) -> frozenset[Weekday]:
    """Read names of weekdays, in any case."""
    if isinstance(names, str):
        names = [names]
    found = {str(name).upper() for name in names}
    unknown = sorted(found - ALL_WEEK)
    if unknown:
        raise TimingError(f"unknown weekday {', '.join(unknown)}; use {', '.join(WEEKDAYS)}")
    return cast("frozenset[Weekday]", frozenset(found))


def short(clock: time) -> str:
    return f"{clock:%H:%M}" if not clock.second else f"{clock:%H:%M:%S}"
