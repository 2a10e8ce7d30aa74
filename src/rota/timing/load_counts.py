"""Counts the coming starts of many schedules by minute.

Schedules with the same timing are counted once, and starts are numbers: ten thousand schedules for
a week are millions of starts."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo

from rota.timing.breath import breathing
from rota.timing.calendar import Calendar
from rota.timing.starts import starts
from rota.timing.timing import EPOCH, Timing
from rota.timing.zones import wall_at

_MOST_TIMES = 50_000  # for one schedule: one per minute for a month
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PlannedSchedule:
    """A schedule, with the durations of its runs."""

    name: str
    timing: Timing
    jitter_seconds: float = 0.0
    calendar: Calendar | None = None
    avg_duration_ms: float | None = None
    max_duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Day:
    """The number of runs that start in each hour of a local day."""

    day: date
    hours: list[int]


@dataclass(frozen=True, slots=True)
class PileUp:
    """Many starts in the same minute: `at` is the local time of day, `count` the maximum, and
    `days` the number of days on which it happens."""

    at: str
    count: int
    days: int
    schedules: list[str]


def line_starts(line: PlannedSchedule, after: datetime, until: datetime) -> array[int]:
    """Return the starts in seconds since 1970, without those on which the calendar is closed."""
    found = starts(line.timing, after, until, _MOST_TIMES)
    if line.calendar is None:
        return found
    is_open = line.calendar.is_allowed
    return array("q", [at for at in found if is_open(EPOCH + at * _SECOND)])


@dataclass(slots=True)
class Group:
    """Schedules that start together. `at` are seconds since 1970, without those on which the
    calendar is closed."""

    names: list[str]
    at: array[int]

    def has_minute(self, minute: int) -> bool:
        place = bisect_left(self.at, minute * 60)
        return place < len(self.at) and self.at[place] < (minute + 1) * 60


@dataclass(slots=True)
class Counted:
    """Counts of starts: add all lines, call `settle`, then read."""

    tz: tzinfo
    begin: datetime
    end: datetime
    gaps: dict[str, float] = field(default_factory=dict)
    _lines: dict[tuple[Timing, str | None, bool], list[PlannedSchedule]] = field(
        default_factory=lambda: defaultdict(list)
    )
    # A schedule with a jitter of a minute or more adds to no pile-up.
    _sharp: list[Group] = field(default_factory=list)
    _by_minute: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _by_hour: dict[tuple[date, int], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, line: PlannedSchedule) -> None:
        calendar = None if line.calendar is None else line.calendar.name
        is_sharp = line.jitter_seconds < 60
        self._lines[line.timing, calendar, is_sharp].append(line)

    def settle(self) -> None:
        whole: dict[int, int] = defaultdict(int)
        for (timing, _, is_sharp), lines in breathing(self._lines.items()):
            step = timing.interval
            if step is not None and step < _MINUTE:
                self._add_often(lines, step)
                continue
            at = line_starts(lines[0], self.begin, self.end)
            group = Group([line.name for line in lines], at)
            self._note_gap(group, step)
            self._count(group, whole, is_sharp)
        for minute, count in breathing(whole.items()):
            self._by_hour[self._hour(minute)] += count

    def _note_gap(self, group: Group, step: timedelta | None) -> None:
        at = group.at
        if len(at) < 2:
            return
        gap = min(map(int.__sub__, at[1:], at)) if step is None else step.total_seconds()
        self.gaps.update(dict.fromkeys(group.names, float(gap)))

    def _count(self, group: Group, whole: dict[int, int], is_sharp: bool) -> None:
        count = len(group.names)
        for at in group.at:
            whole[at // 60] += count
        if is_sharp:
            self._sharp.append(group)
            last = None
            for at in group.at:
                if (minute := at // 60) != last:
                    self._by_minute[minute] += count
                    last = minute

    def _add_often(self, lines: list[PlannedSchedule], step: timedelta) -> None:
        """Count by arithmetic: listing a million seconds would be too slow, and they are no
        pile-up."""
        first = lines[0]
        self.gaps.update(dict.fromkeys((line.name for line in lines), step.total_seconds()))
        for after, until in _hours(self.begin, self.end):
            wall = wall_at(until - timedelta(microseconds=1), self.tz)
            if first.calendar is None or first.calendar.is_allowed(until):
                count = first.timing.count_between(after, until)
                self._by_hour[wall.date(), wall.hour] += count * len(lines)

    def _hour(self, minute: int) -> tuple[date, int]:
        wall = wall_at(EPOCH + minute * _MINUTE, self.tz)
        return wall.date(), wall.hour

    def days(self) -> list[Day]:
        first, last = wall_at(self.begin, self.tz).date(), wall_at(self.end, self.tz).date()
        shown = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        return [
            Day(day, [self._by_hour.get((day, hour), 0) for hour in range(24)]) for day in shown
        ]

    def pile_ups(self, least: int, most: int = 10) -> list[PileUp]:
        """Return pile-ups by local time of day, the worst first."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for minute, count in breathing(self._by_minute.items()):
            if count >= least:
                wall = wall_at(EPOCH + minute * _MINUTE, self.tz)
                found[f"{wall:%H:%M}"].append((count, -minute))
        worst = sorted((-max(days)[0], at) for at, days in found.items())[:most]
        return [
            PileUp(at, -count, len(found[at]), self.names_at(-max(found[at])[1]))
            for count, at in worst
        ]

    def names_at(self, minute: int) -> list[str]:
        """Return the schedules that start in this minute since 1970."""
        return sorted(
            name for group in self._sharp if group.has_minute(minute) for name in group.names
        )


def _hours(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    at = begin
    while at < end:
        following = min(at.replace(minute=0, second=0, microsecond=0) + _HOUR, end)
        yield at, following
        at = following
