"""Forecasts the load of the coming days: when runs start, pile up and overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.timing.breath import breathing
from rota.timing.load_counts import Counted, Day, PileUp, PlannedSchedule, line_starts
from rota.timing.nominal import in_utc
from rota.timing.timing import EPOCH
from rota.timing.zones import zone

__all__ = [
    "MOST_DAYS",
    "Day",
    "HourLoad",
    "LeftOut",
    "Load",
    "PileUp",
    "PlannedSchedule",
    "PredictedOverlap",
    "Start",
    "Suggestion",
    "hour",
    "simulate",
]
MOST_DAYS = 31
_SECOND = timedelta(seconds=1)
_MICRO = timedelta(microseconds=1)
_LONGEST_JITTER = 900.0
_SECONDS_EACH = 15.0


@dataclass(frozen=True, slots=True)
class PredictedOverlap:
    """A schedule whose runs have taken longer than the time between two of them: on average if
    `is_usual`, otherwise sometimes."""

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
    """A schedule that the forecast does not include, because its timing or calendar cannot be
    computed."""

    schedule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Load:
    """The expected load of the coming days."""

    from_at: datetime
    until_at: datetime
    timezone: str
    total: int
    days: list[Day]
    pile_ups: list[PileUp]
    overlaps: list[PredictedOverlap]
    suggestions: list[Suggestion]
    left_out: list[LeftOut] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Start:
    """A schedule that starts within an hour: first at `at`, `count` times in total."""

    at: datetime
    schedule: str
    count: int
    avg_duration_ms: float | None


@dataclass(frozen=True, slots=True)
class HourLoad:
    """The starts in one hour; `minutes` has their number for each minute."""

    from_at: datetime
    until_at: datetime
    minutes: list[int]
    starts: list[Start]

    @property
    def total(self) -> int:
        return sum(self.minutes)


def simulate(
    lines: Sequence[PlannedSchedule],
    start: datetime,
    days: int,
    timezone: str = "UTC",
    least: int = 5,
    left_out: Sequence[LeftOut] = (),
) -> Load:
    """Return the load of the next days in a zone; `least` starts in one minute are a pile-up."""
    begin = in_utc(start, "start")
    end = begin + timedelta(days=days)
    counted = Counted(zone(timezone), begin, end)
    for line in breathing(lines):
        counted.add(line)
    counted.settle()
    found = (_overlap(line, counted.gaps.get(line.name)) for line in breathing(lines))
    overlaps = [overlap for overlap in found if overlap is not None]
    pile_ups = counted.pile_ups(least)
    shown = counted.days()
    total = sum(sum(day.hours) for day in shown)
    suggestions = _suggestions(pile_ups, counted.gaps)
    return Load(begin, end, timezone, total, shown, pile_ups, overlaps, suggestions, [*left_out])


def hour(lines: Sequence[PlannedSchedule], begin: datetime, end: datetime) -> HourLoad:
    """Return the starts between two instants; a schedule that starts repeatedly has its first
    time."""
    minutes = [0] * 60
    found: list[Start] = []
    for line in lines:
        at = line_starts(line, begin - _MICRO, end - _MICRO)
        if not at:
            continue
        found.append(Start(EPOCH + at[0] * _SECOND, line.name, len(at), line.avg_duration_ms))
        for second in at:
            minutes[(second // 60) % 60] += 1
    found.sort(key=lambda start: (start.at, start.schedule))
    return HourLoad(begin, end, minutes, found)


def _overlap(line: PlannedSchedule, gap: float | None) -> PredictedOverlap | None:
    longest = line.max_duration_ms
    if gap is None or longest is None or longest / 1000 <= gap:
        return None
    average = line.avg_duration_ms
    is_usual = average is not None and average / 1000 > gap
    return PredictedOverlap(line.name, gap, average, longest, is_usual)


def _suggestions(pile_ups: Iterable[PileUp], gaps: dict[str, float]) -> list[Suggestion]:
    """Suggest a jitter of a quarter of a minute per schedule, but never so much that a schedule
    overlaps itself."""
    made: list[Suggestion] = []
    named: set[str] = set()
    for pile_up in pile_ups:
        names = [name for name in pile_up.schedules if name not in named]
        if len(names) < len(pile_up.schedules) / 2:
            continue
        shortest = min((gaps.get(name, 86_400.0) for name in names), default=86_400.0)
        jitter = min(len(pile_up.schedules) * _SECONDS_EACH, _LONGEST_JITTER, shortest / 2)
        made.append(Suggestion(pile_up.at, max(60.0, round(jitter / 60) * 60.0), names))
        named |= set(names)
    return made
