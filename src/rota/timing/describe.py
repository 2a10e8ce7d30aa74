"""Describes a timing in plain words: our own for common forms, cronsim's for others."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from rota.timing.cron import parse
from rota.timing.timing import Timing

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_SHORT = {day[:3].upper(): number for number, day in enumerate(_DAYS)}
_MOST_TIMES = 4


def describe(timing: Timing) -> str:
    """Describe a timing, as in "every weekday at 09:00 (Europe/Paris)"."""
    return _what(timing) + _bounds(timing)


def _what(timing: Timing) -> str:
    if timing.interval is not None:
        return f"every {_span(timing.interval)}"
    if timing.run_at is not None:
        return f"once, on {_moment(timing.run_at, timing.tz)} ({timing.timezone})"
    return f"{_cron(timing)} ({timing.timezone})"


def _bounds(timing: Timing) -> str:
    parts = []
    if timing.start_at:
        parts.append(f"from {_moment(timing.start_at, timing.tz)}")
    if timing.end_at:
        parts.append(f"until {_moment(timing.end_at, timing.tz)}")
    return f", {' '.join(parts)}" if parts else ""


def _moment(at: datetime, tz: tzinfo) -> str:
    local = at.astimezone(tz)
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    return f"{local:%Y-%m-%d} at {clock}"


def _span(step: timedelta) -> str:
    """Format a duration in the largest unit that fits exactly; a single day is given in hours,
    because it is real time."""
    seconds = step.total_seconds()
    for size, unit in _UNITS:
        count, rest = divmod(seconds, size)
        if not rest and (count > 1 or (count == 1 and unit != "day")):
            return unit if count == 1 else f"{count:.0f} {unit}s"
    return f"{seconds:.12g} seconds"


def _cron(timing: Timing) -> str:
    # Not None: _what has checked the other kinds first.
    sim = parse(timing.cron, timing.with_seconds)
    second, minute, hour, day, month, weekday = sim.parts
    days = _day_words(day, month, weekday)
    times = _clock_words(second, minute, hour)
    if days and times:
        return f"{days} at {times}"
    minutes = _step_words(second, minute, hour)
    if minutes and (day, month, weekday) == ("*", "*", "*"):
        return minutes
    text = sim.explain()
    return text[0].lower() + text[1:]


def _step_words(second: str, minute: str, hour: str) -> str | None:
    """Describe `*/5 * * * *`, if the steps continue evenly from hour to hour."""
    step = re.fullmatch(r"\*/(\d+)", minute)
    if second != "0" or hour != "*":
        return None
    if step and 60 % int(step[1]) == 0 and int(step[1]) > 1:
        return f"every {step[1]} minutes"
    return "every hour, on the hour" if minute == "0" else None


def _clock_words(second: str, minute: str, hour: str) -> str | None:
    """Describe a few times of day, as `09:00 and 17:00`."""
    if not all(re.fullmatch(r"\d+(,\d+)*", part) for part in (second, minute, hour)):
        return None
    seconds, minutes, hours = (
        sorted({int(it) for it in part.split(",")}) for part in (second, minute, hour)
    )
    times = [(h, m, s) for h in hours for m in minutes for s in seconds]
    if len(times) > _MOST_TIMES:
        return None
    shown = [f"{h:02}:{m:02}" + (f":{s:02}" if seconds != [0] else "") for h, m, s in times]
    return _joined(shown)


def _day_words(day: str, month: str, weekday: str) -> str | None:
    if month != "*" or (day != "*" and weekday != "*"):
        return None
    if day == weekday == "*":
        return "every day"
    if day == "L":
        return "on the last day of every month"
    if day.isdigit():
        return f"on the {_ordinal(int(day))} of every month"
    return _weekday_words(weekday) if day == "*" else None


def _weekday_words(weekday: str) -> str | None:
    numbers = _weekdays(weekday)
    if numbers is None:
        return None
    named = {frozenset(range(1, 6)): "weekday", frozenset({0, 6}): "Saturday and Sunday"}
    if numbers in named:
        return f"every {named[numbers]}"
    # Monday first.
    return "every " + _joined([_DAYS[it] for it in sorted(numbers, key=lambda it: (it - 1) % 7)])


def _weekdays(weekday: str) -> frozenset[int] | None:
    """Return the days of a list of days and ranges, 0 is Sunday; None if it contains anything
    else."""
    found: set[int] = set()
    for part in weekday.split(","):
        first, _, last = part.partition("-")
        ends = [_number(it) for it in (first, last or first)]
        if None in ends:
            return None
        found |= {it % 7 for it in range(ends[0] or 0, (ends[1] or 0) + 1)}
    return frozenset(found)


def _number(day: str) -> int | None:
    return int(day) if day.isdigit() else _SHORT.get(day)


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
