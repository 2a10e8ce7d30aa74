"""Charts with a headline: lines, axes, and the words of each value. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from rota.web.axes import CAPTIONS, Axis, AxisTime, Unit, axis_of, said, ticks_of

Kind = Literal["area", "bars", "line"]


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

    @property
    def is_sparse(self) -> bool:
        """Whether many of its values have no neighbours, so that a line would be a row of dots."""
        around = [None, *self.values, None]
        known = [n for n, value in enumerate(self.values) if value is not None]
        alone = [n for n in known if around[n] is None and around[n + 2] is None]
        return len(alone) * 3 > len(known)


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart with its headline: the present number, and what it is compared with. `open_steps` is
    the number of steps at the end that have not ended: 1, or 0."""

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
    open_steps: int = 1

    @property
    def drawn(self) -> list[PlotLine]:
        """The lines as they are drawn: bars where a line would consist of dots."""
        return [
            replace(one, kind="bars")
            if one.kind == "line" and "dash" not in one.look and one.is_sparse
            else one
            for one in self.lines
        ]

    @property
    def axis(self) -> Axis:
        return axis_of([value for line in self.lines for value in line.values], self.unit)

    @property
    def caption(self) -> str:
        return CAPTIONS.get(self.unit, "")

    @property
    def ticks(self) -> list[AxisTime]:
        return ticks_of(self.since, self.step_seconds * self.steps, self.zone)

    @property
    def steps(self) -> int:
        return max((len(line.values) for line in self.lines), default=0) or 1

    def _time(self, n: int) -> str:
        is_long = self.step_seconds * self.steps > 2 * 86_400
        at = self.since + timedelta(seconds=self.step_seconds * n)
        text = at.astimezone(self.zone).strftime("%a %H:%M" if is_long else "%H:%M")
        return f"{text}, so far" if self.open_steps and n == self.steps - 1 else text

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
        times = [self._time(n) for n in range(self.steps)]
        return json.dumps({"times": times, "lines": lines}, separators=(",", ":"))
