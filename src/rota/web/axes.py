"""Round numbers and round times for the axes of charts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Literal

from rota.model.formatting import duration, number

Unit = Literal["count", "rate", "percent", "ms", "s"]
# What is counted, below the numbers; durations and percents have their own units.
CAPTIONS: dict[Unit, str] = {"rate": "per min", "count": "attempts"}
_MOST_PARTS, _MOST_TICKS = 4, 7
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_SECONDS = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10_800,
    21_600,
    43_200,
    86_400,
)
_TICKS = (*(it for it in _SECONDS if it >= _MINUTE), 2 * _DAY, 5 * _DAY, 7 * _DAY, 30 * _DAY)


@dataclass(frozen=True, slots=True)
class Axis:
    """From zero to a round number, in equal parts."""

    top: float
    parts: int
    unit: Unit
    is_known: bool = True

    @property
    def labels(self) -> list[str]:
        """From the top down."""
        steps = [self.top * n / self.parts for n in range(self.parts, -1, -1)]
        return [said(value, self.unit) for value in steps] if self.is_known else ["", "0"]

    @property
    def grid(self) -> str:
        return "".join(f"M0 {100 * n / self.parts:g}H600" for n in range(self.parts))


@dataclass(frozen=True, slots=True)
class AxisTime:
    """A time on the axis: its place in percent of the width, and how its text is aligned there."""

    at: float
    text: str

    @property
    def anchor(self) -> str:
        return "start" if self.at < 3 else "end" if self.at > 97 else "middle"


def axis_of(values: Sequence[float | None], unit: Unit) -> Axis:
    """Return an axis up to the highest value, in steps of 1, 2 or 5."""
    most = max((value for value in values if value is not None), default=0.0)
    if not math.isfinite(most) or most <= 0:
        return Axis(1.0, 1, unit, is_known=False)
    step = _step(most / _MOST_PARTS, unit)
    parts = max(1, math.ceil(most / step - 1e-9))
    return Axis(step * parts, parts, unit)


def _step(least: float, unit: Unit) -> float:
    if unit in ("ms", "s"):
        size = 1000 if unit == "ms" else 1
        seconds = least / size
        if 0.5 < seconds <= _DAY:
            return size * float(next(it for it in _SECONDS if it >= seconds * 0.9999))
        return size * _DAY * _round(seconds / _DAY) if seconds > _DAY else _round(least)
    # Runs are counted in whole numbers.
    return max(1.0, _round(least)) if unit == "count" else _round(least)


def _round(least: float) -> float:
    size = 10.0 ** math.floor(math.log10(least))
    return next(it * size for it in (1, 2, 5, 10) if it * size >= least * 0.9999)


def ticks_of(since: datetime, seconds: float, zone: tzinfo) -> list[AxisTime]:
    """Return round times of a wall clock, such as 00:00, 06:00, 12:00 and 18:00."""
    step = next((it for it in _TICKS if seconds / it <= _MOST_TICKS), _TICKS[-1])
    midnight = datetime.combine(since.astimezone(zone).date(), time())
    found: list[AxisTime] = []
    for n in range(math.ceil((seconds + _DAY) / step) + 1):
        at = (midnight + timedelta(seconds=n * step)).replace(tzinfo=zone)
        place = (at.timestamp() - since.timestamp()) / seconds * 100
        if 0 <= place <= 100:
            found.append(AxisTime(round(place, 2), _time(at, step, seconds)))
    return found


def _time(at: datetime, step: float, seconds: float) -> str:
    if step < _DAY:
        return f"{at:%H:%M}"
    return f"{at:%a} {at.day}" if seconds <= 8 * _DAY else f"{at.day} {at:%b}"


def said(value: float | None, unit: Unit) -> str:
    """A value with its unit."""
    if value is None:
        return ""
    if unit in ("count", "rate"):
        return number(value)
    if unit == "percent":
        return f"{value:.3g} %"
    seconds = value / 1000 if unit == "ms" else value
    return duration(seconds) if seconds else "0"
