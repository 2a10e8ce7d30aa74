"""The coming load as a table of days and hours. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from statistics import median

from rota.model.formatting import plural
from rota.timing.load import Load
from rota.timing.zones import Shift, shifts

_HOUR = timedelta(hours=1)
# Bounds of the shades, as multiples of the usual hour.
_BOUNDS = (0.5, 1.25, 2, 4)


@dataclass(frozen=True, slots=True)
class Cell:
    """`at` is the instant at which the hour begins, None if the cell has no link."""

    hour: int
    count: int
    level: int
    title: str
    at: datetime | None
    is_twice: bool


@dataclass(frozen=True, slots=True)
class HeatRow:
    label: str
    note: str
    is_today: bool
    cells: list[Cell]
    total: int


@dataclass(frozen=True, slots=True)
class Heat:
    """`steps` are the shades, each with its smallest count."""

    rows: list[HeatRow]
    notes: list[str]
    steps: list[tuple[int, int]]


def heat_of(load: Load, zone: tzinfo) -> Heat:
    counts = [count for day in load.days for count in day.hours if count]
    usual = median(counts) if counts else 0.0
    changes = {
        _wall_day(shift): shift
        for year in range(load.from_at.year, load.until_at.year + 1)
        for shift in shifts(zone, year)
        if load.from_at <= shift.at < load.until_at
    }
    rows = [
        HeatRow(
            label=f"{day.day:%a} {day.day.day} {day.day:%b}",
            note=_length(changes.get(day.day)),
            is_today=number == 0,
            cells=[
                _cell(
                    load, day.day, hour, count, level_of(count, usual), zone, changes.get(day.day)
                )
                for hour, count in enumerate(day.hours)
            ],
            total=sum(day.hours),
        )
        for number, day in enumerate(load.days)
    ]
    steps = _steps(usual, max(counts, default=0))
    return Heat(rows, [_told(change) for change in changes.values()], steps)


def level_of(count: int, usual: float) -> int:
    """Return one of five shades, compared with the usual hour: an even load stays pale, and a
    pile-up stands out however busy the other hours are."""
    if not count:
        return 0
    return 1 + sum(count > bound * usual for bound in _BOUNDS)


def _steps(usual: float, most: int) -> list[tuple[int, int]]:
    """Return only the shades that a count up to the highest can have."""
    least = [1, *(math.floor(bound * usual) + 1 for bound in _BOUNDS), most + 1]
    return [
        (level, count)
        for level, count in enumerate(least[:-1], start=1)
        if count <= most and count < least[level]
    ]


def _wall_day(shift: Shift) -> date:
    return min(shift.wall_before, shift.wall_after).date()


def _length(shift: Shift | None) -> str:
    if shift is None:
        return ""
    hours = 24 - (shift.wall_after - shift.wall_before) / _HOUR
    return f"{hours:g} h"


def _told(shift: Shift) -> str:
    day = _wall_day(shift)
    name = f"{day:%a} {day.day} {day:%b}"
    before, after = shift.wall_before, shift.wall_after
    if shift.is_gap:
        return (
            f"{name} is {_length(shift)} long: clocks go forward, "
            f"{before:%H:%M} becomes {after:%H:%M}."
        )
    return (
        f"{name} is {_length(shift)} long: clocks go back at {before:%H:%M}, the time from "
        f"{after:%H:%M} to {before:%H:%M} occurs twice (underlined)."
    )


def _cell(
    load: Load, day: date, hour: int, count: int, level: int, zone: tzinfo, shift: Shift | None
) -> Cell:
    wall = datetime.combine(day, time(hour))
    at = wall.replace(tzinfo=zone).astimezone(UTC)
    is_within = at + _HOUR > load.from_at and at < load.until_at
    is_twice, is_missing = _touched(wall, shift)
    runs = plural(count, "run")
    title = f"{runs}, {day:%a} {day.day} {day:%b} {hour:02}:00 to {hour:02}:59"
    if is_twice:
        title += ", an hour that occurs twice"
    if is_missing:
        title = "This hour does not exist: the clocks go forward"
    shown = at if (is_within and not is_missing) or count else None
    return Cell(hour, count, level, title, shown, is_twice)


def _touched(wall: datetime, shift: Shift | None) -> tuple[bool, bool]:
    """Return whether part of the hour occurs twice, and whether the clocks skip all of it."""
    if shift is None:
        return False, False
    before, after = shift.wall_before, shift.wall_after
    if shift.is_gap:
        return False, before <= wall and wall + _HOUR <= after
    return wall < before and after < wall + _HOUR, False
