"""What the coming days bring: how many runs start when, where they pile up, and which overlap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from itertools import pairwise

from rota.timing.calendar import Calendar
from rota.timing.nominal import in_utc
from rota.timing.timing import Timing
from rota.timing.zones import wall_at, zone

MOST_DAYS = 31
_MOST_TIMES = 50_000  # of one schedule: one a minute for a month
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_LONGEST_JITTER = 900.0
_SECONDS_EACH = 15.0


@dataclass(frozen=True, slots=True)
class Line:
    """One schedule, with how long its runs have taken."""

    name: str
    timing: Timing
    jitter_seconds: float = 0.0
    calendar: Calendar | None = None
    avg_duration_ms: float | None = None
    max_duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Day:
    """How many runs start in each hour of a local day."""

    day: date
    hours: list[int]


@dataclass(frozen=True, slots=True)
class PileUp:
    """So many schedules start in one minute; `at` is the local time of day, on `days` of them."""

    at: str
    count: int
    days: int
    schedules: list[str]


@dataclass(frozen=True, slots=True)
class PredictedOverlap:
    """Its runs have taken longer than the time between two of them: always, or at times."""

    schedule: str
    gap_seconds: float
    avg_duration_ms: float | None
    max_duration_ms: float
    is_usual: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A jitter that would spread a pile-up."""

    at: str
    jitter_seconds: float
    schedules: list[str]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A schedule whose timing or calendar cannot be followed: the load is that of the others."""

    schedule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Load:
    from_at: datetime
    until_at: datetime
    timezone: str
    total: int
    days: list[Day]
    pile_ups: list[PileUp]
    overlaps: list[PredictedOverlap]
    suggestions: list[Suggestion]
    left_out: list[LeftOut] = field(default_factory=list)


def simulate(
    lines: Sequence[Line],
    start: datetime,
    days: int,
    timezone: str = "UTC",
    least: int = 5,
    left_out: Sequence[LeftOut] = (),
) -> Load:
    """The load of the next days in a zone; from `least` starts in one minute on it is a pile-up."""
    tz = zone(timezone)
    begin = in_utc(start, "start")
    end = begin + timedelta(days=days)
    counted = _Counted(tz)
    overlaps = []
    for line in lines:
        gap = counted.add(line, begin, end)
        found = _overlap(line, gap)
        if found:
            overlaps.append(found)
    pile_ups = counted.pile_ups(least)
    shown = _days(counted, wall_at(begin, tz).date(), wall_at(end, tz).date())
    total = sum(sum(one.hours) for one in shown)
    suggestions = _suggestions(pile_ups, counted.gaps)
    return Load(begin, end, timezone, total, shown, pile_ups, overlaps, suggestions, [*left_out])


@dataclass(slots=True)
class _Counted:
    tz: tzinfo
    by_hour: dict[tuple[date, int], int] = field(default_factory=lambda: defaultdict(int))
    by_minute: dict[datetime, set[str]] = field(default_factory=lambda: defaultdict(set))
    gaps: dict[str, float] = field(default_factory=dict)

    def add(self, line: Line, begin: datetime, end: datetime) -> float | None:
        """Count one schedule's starts. Answers the shortest time between two of them."""
        step = line.timing.interval
        if step is not None and step < _MINUTE:
            self._add_often(line, begin, end)
            self.gaps[line.name] = step.total_seconds()
            return self.gaps[line.name]
        times = _allowed(line, begin, end)
        for at in times:
            wall = wall_at(at, self.tz)
            self.by_hour[wall.date(), wall.hour] += 1
            if line.jitter_seconds < _MINUTE.total_seconds():
                self.by_minute[wall.replace(second=0, microsecond=0)].add(line.name)
        gap = min(((b - a).total_seconds() for a, b in pairwise(times)), default=None)
        if gap is not None:
            self.gaps[line.name] = gap
        return gap

    def _add_often(self, line: Line, begin: datetime, end: datetime) -> None:
        """By arithmetic: nobody wants to list a million seconds, nor are they a pile-up."""
        for after, until in _hours(begin, end):
            wall = wall_at(until - timedelta(microseconds=1), self.tz)
            if line.calendar is None or line.calendar.is_allowed(until):
                count = line.timing.count_between(after, until)
                self.by_hour[wall.date(), wall.hour] += count

    def pile_ups(self, least: int, most: int = 10) -> list[PileUp]:
        """By local time of day, the worst first."""
        found: dict[str, list[list[str]]] = defaultdict(list)
        for minute, names in self.by_minute.items():
            if len(names) >= least:
                found[f"{minute:%H:%M}"].append(sorted(names))
        worst = []
        for at, days in found.items():
            longest = max(days, key=len)
            worst.append(PileUp(at, len(longest), len(days), longest))
        return sorted(worst, key=lambda one: (-one.count, one.at))[:most]


def _allowed(line: Line, begin: datetime, end: datetime) -> list[datetime]:
    times = [nominal.at for nominal in line.timing.between(begin, end, _MOST_TIMES)]
    calendar = line.calendar
    return times if calendar is None else [at for at in times if calendar.is_allowed(at)]


def _hours(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    at = begin
    while at < end:
        following = min(at.replace(minute=0, second=0, microsecond=0) + _HOUR, end)
        yield at, following
        at = following


def _days(counted: _Counted, first: date, last: date) -> list[Day]:
    shown = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [Day(day, [counted.by_hour.get((day, hour), 0) for hour in range(24)]) for day in shown]


def _overlap(line: Line, gap: float | None) -> PredictedOverlap | None:
    longest = line.max_duration_ms
    if gap is None or longest is None or longest / 1000 <= gap:
        return None
    average = line.avg_duration_ms
    is_usual = average is not None and average / 1000 > gap
    return PredictedOverlap(line.name, gap, average, longest, is_usual)


def _suggestions(pile_ups: Iterable[PileUp], gaps: dict[str, float]) -> list[Suggestion]:
    """A quarter of a minute for each, but never so much that a schedule meets itself."""
    made: list[Suggestion] = []
    told: set[str] = set()
    for one in pile_ups:
        names = [name for name in one.schedules if name not in told]
        if len(names) < len(one.schedules) / 2:
            continue
        shortest = min((gaps.get(name, 86_400.0) for name in names), default=86_400.0)
        jitter = min(len(one.schedules) * _SECONDS_EACH, _LONGEST_JITTER, shortest / 2)
        made.append(Suggestion(one.at, max(60.0, round(jitter / 60) * 60.0), names))
        told |= set(names)
    return made
