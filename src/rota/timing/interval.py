"""Intervals of real time, counted from an anchor so that they do not drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from rota.errors import TimingError
from rota.model.durations import read_duration
from rota.timing.nominal import EARLIEST, LATEST, Nominal

SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=36_525)


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """The anchor plus every multiple of the step, on both sides of it.

    A missed time does not move the next one.
    """

    step: timedelta
    anchor: datetime

    def times(self, after: datetime) -> Iterator[Nominal]:
        if after >= LATEST:
            return
        number = (max(after, EARLIEST) - self.anchor) // self.step + 1
        at = self.anchor + number * self.step
        while at < LATEST:
            yield Nominal(at)
            at += self.step

    def count(self, after: datetime, until: datetime) -> int:
        """Count the times in (after, until] without listing them."""
        until = min(until, LATEST - timedelta.resolution)
        if until <= after:
            return 0
        return (until - self.anchor) // self.step - (after - self.anchor) // self.step

    def latest(self, after: datetime, until: datetime) -> Nominal | None:
        """Return the last time in (after, until]."""
        if not self.count(after, until):
            return None
        until = min(until, LATEST - timedelta.resolution)
        return Nominal(self.anchor + (until - self.anchor) // self.step * self.step)


def step_of(seconds: object) -> timedelta:
    """Read an interval: a duration, from one second up."""
    step = _timedelta(seconds)
    if step is None:
        raise TimingError(f"interval must be a duration, not {seconds!r}")
    if step < SHORTEST:
        raise TimingError(
            f"interval must be 1 second or more, not {step.total_seconds():.12g}",
            hint="for continuous work, loop inside the job or let it enqueue its next run",
        )
    if step > LONGEST:
        raise TimingError("interval must be 100 years or less")
    return step


def _timedelta(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    seconds = read_duration(float(value) if isinstance(value, Decimal) else value)
    if seconds is None:
        return None
    # Bounded first: timedelta would overflow, where the caller should report that it is too long.
    return timedelta(seconds=min(max(seconds, -1e10), 1e10))


def every(expression: str) -> timedelta | None:
    """Return the step of `@every 90s` (or 1h30m); None if the expression is not an interval."""
    text = expression.strip()
    word, _, rest = text.partition(" ")
    if not word.casefold().startswith("@every"):
        return None
    step = read_duration(rest) if word.casefold() == "@every" else None
    if step is None:
        raise TimingError(
            f"cron {text!r} is not an interval", hint="write @every 90s, 15min, 1h30m or 2d"
        )
    return step_of(step)
