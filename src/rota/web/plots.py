"""Charts with a headline: scales, ticks, and the words of each value. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from rota.model.formatting import duration, number
from rota.web.charts import Scale

Kind = Literal["area", "bars", "line"]
Unit = Literal["count", "ms", "s"]
# Round tops of the axis, which is labelled at its quarters.
_ROUND = (1, 1.2, 1.6, 2, 2.4, 4, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class PlotLine:
    """`look` is the class of its colour: a state's, `ink`, `ink2` or `ink3`; `dash` marks the
    previous period."""

    label: str
    kind: Kind
    look: str
    values: Sequence[float | None]

    @property
    def numbers(self) -> list[float]:
        return [value or 0.0 for value in self.values]


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart with its headline: the present number, and what it is compared with."""

    id: str
    title: str
    about: str
    unit: Unit
    since: datetime
    step_seconds: int
    lines: list[PlotLine]
    value: str
    beside: str
    zone: tzinfo
    is_bad: bool = False

    @property
    def axis(self) -> Scale:
        known = [value for line in self.lines for value in line.values if value is not None]
        most, unit = max(known, default=0.0), self.unit
        # Long waits are shown in minutes or hours.
        size = next((seconds for seconds in (3600, 60) if unit == "s" and seconds < most), 1)
        top = round_up(most / size) * size
        # Runs are counted in whole numbers.
        return Scale(4.0 * math.ceil(top / 4) if unit == "count" else top)

    @property
    def labels(self) -> list[str]:
        return [said(value, self.unit) for value in self.axis.labels]

    @property
    def ticks(self) -> list[str]:
        """Five times along the axis."""
        return [self._time(self._steps * quarter / 4) for quarter in range(5)]

    @property
    def _steps(self) -> int:
        return max((len(line.values) for line in self.lines), default=0)

    def _time(self, steps: float) -> str:
        is_long = self.step_seconds * self._steps > 2 * 86_400
        at = self.since + timedelta(seconds=self.step_seconds * steps)
        return at.astimezone(self.zone).strftime("%a %H:%M" if is_long else "%H:%M")

    @property
    def label(self) -> str:
        """The description for screen readers."""
        return f"{self.title}: {self.value}; {self.beside}"

    @property
    def data(self) -> str:
        """The times and values of all steps in words, for the script."""
        lines = [
            (line.label, [said(value, self.unit) for value in line.values]) for line in self.lines
        ]
        times = [self._time(n) for n in range(self._steps)]
        return json.dumps({"times": times, "lines": lines}, separators=(",", ":"))


def round_up(most: float) -> float:
    """Round up to a round number."""
    if not math.isfinite(most) or most <= 0:
        return 1.0
    size = 10 ** math.floor(math.log10(most))
    return float(next(step * size for step in _ROUND if step * size >= most * 0.9999))


def said(value: float | None, unit: Unit) -> str:
    if value is None:
        return ""
    if unit == "count":
        return number(value)
    seconds = value / 1000 if unit == "ms" else value
    return duration(seconds) if seconds else "0"
