"""Every so many seconds of real time, counted from an anchor so that nothing drifts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from rota.errors import TimingError
from rota.timing.nominal import EARLIEST, LATEST, Nominal

SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=36_525)

_UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_EVERY = re.compile(r"@every\s+((?:\d+(?:\.\d+)?[wdhms]\s*)+)", re.IGNORECASE)
_PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """The anchor plus every multiple of the step, on both sides of it.

    A time missed is not made up for by moving the next: that one stays where it was.
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
        """How many in (after, until], without listing them."""
        until = min(until, LATEST - timedelta.resolution)
        if until <= after:
            return 0
        return (until - self.anchor) // self.step - (after - self.anchor) // self.step

    def latest(self, after: datetime, until: datetime) -> Nominal | None:
        """The last one in (after, until]."""
        if not self.count(after, until):
            return None
        until = min(until, LATEST - timedelta.resolution)
        return Nominal(self.anchor + (until - self.anchor) // self.step * self.step)


def step_of(seconds: object) -> timedelta:
    """Read an interval: seconds or a timedelta, from one second up."""
    step = _timedelta(seconds)
    if step is None:
        raise TimingError(f"interval must be a number of seconds, not {seconds!r}")
    if step < SHORTEST:
        raise TimingError(
            f"interval must be 1 second or more, not {step.total_seconds():.12g}",
            hint="for continuous work, loop inside the job or let it enqueue its next run",
        )
    if step > LONGEST:
        raise TimingError("interval must be 100 years or less")
    return step


def _timedelta(seconds: object) -> timedelta | None:
    if isinstance(seconds, timedelta):
        return seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | Decimal):
        return None
    if not isinstance(seconds, int) and not math.isfinite(seconds):
        return None
    # Bounded first: timedelta overflows on what the caller should be told is too long.
    return timedelta(seconds=float(min(max(seconds, -(10**10)), 10**10)))


def every(expression: str) -> timedelta | None:
    """The step of `@every 90s` (or 1h30m); None: the expression is something else."""
    text = expression.strip()
    if not text.casefold().startswith("@every"):
        return None
    match = _EVERY.fullmatch(text)
    if not match:
        raise TimingError(
            f"cron {text!r} is not an interval", hint="write @every 90s, 5m, 2h, 1d or 1h30m"
        )
    parts = _PART.findall(match[1].casefold())
    return step_of(sum(Decimal(count) * _UNITS[unit] for count, unit in parts))
