"""The durations of a schedule's last runs, as bars of a plot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.occurrence import OccurrenceInfo
from rota.model.states import RETRIABLE_STATES
from rota.web import charts, time_text
from rota.web.axes import Axis, axis_of

_BAD = RETRIABLE_STATES


@dataclass(frozen=True, slots=True)
class Durations:
    """`good` and `bad` are paths of bars; heights are from the top down, in a plot of 100."""

    good: str
    bad: str
    axis: Axis
    first_at: datetime
    last_at: datetime
    median: float
    median_y: str
    p95: float
    p95_y: str
    timeout: float | None
    timeout_y: str | None
    count: int

    @property
    def label(self) -> str:
        return (
            f"Durations of the last {time_text.plural(self.count, 'run')}: "
            f"median {time_text.duration(self.median)}, p95 {time_text.duration(self.p95)}"
        )


def durations(past: Sequence[OccurrenceInfo], timeout: float | None) -> Durations | None:
    """Read the ledger, the newest first; return None if no run has ended."""
    ended = [occurrence for occurrence in reversed(past) if occurrence.duration_ms is not None]
    if not ended:
        return None
    seconds = [float(occurrence.duration_ms or 0) / 1000 for occurrence in ended]
    ranked = sorted(seconds)
    median, p95 = ranked[len(ranked) // 2], ranked[min(len(ranked) - 1, len(ranked) * 95 // 100)]
    most = ranked[-1]
    # A timeout far above the durations would flatten all bars.
    shown = timeout if timeout is not None and timeout <= most * 4 else None
    axis = axis_of([most, shown], "s")
    # Even the shortest run has a bar.
    heights = [max(took, axis.top / 100) for took in seconds]
    return Durations(
        good=_bars(ended, heights, axis.top, is_bad=False),
        bad=_bars(ended, heights, axis.top, is_bad=True),
        axis=axis,
        first_at=ended[0].nominal_at,
        last_at=ended[-1].nominal_at,
        median=median,
        median_y=_y(median, axis.top),
        p95=p95,
        p95_y=_y(p95, axis.top),
        timeout=shown,
        timeout_y=None if shown is None else _y(shown, axis.top),
        count=len(ended),
    )


def _bars(
    ended: Sequence[OccurrenceInfo], heights: Sequence[float], top: float, *, is_bad: bool
) -> str:
    chosen = zip(ended, heights, strict=True)
    return charts.bars([took if (it.state in _BAD) == is_bad else 0 for it, took in chosen], top)


def _y(value: float, top: float) -> str:
    return f"{charts.HEIGHT * (1 - min(value, top) / top):.1f}".removesuffix(".0")
