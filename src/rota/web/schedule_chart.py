"""The durations of a schedule's last runs, as points of a plot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.occurrence import OccurrenceInfo
from rota.model.states import RETRIABLE_STATES
from rota.web import charts, time_text

_GOOD, _BAD = "succeeded", RETRIABLE_STATES


@dataclass(frozen=True, slots=True)
class Durations:
    """`good` and `bad` are paths of points; heights are from the top down, in a plot of 100."""

    good: str
    bad: str
    labels: list[str]
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
    # A timeout far above the durations would flatten all points.
    shown = timeout if timeout is not None and timeout <= most * 4 else None
    top = _top(max(most, shown or 0))
    width = charts.WIDTH / len(ended)
    places = [
        (occurrence.state, f"M{(n + 0.5) * width:.1f} {_y(took, top)}h0")
        for n, (occurrence, took) in enumerate(zip(ended, seconds, strict=True))
    ]
    return Durations(
        good="".join(path for state, path in places if state not in _BAD),
        bad="".join(path for state, path in places if state in _BAD),
        labels=[
            time_text.duration(top * quarter / 4) if quarter else "0" for quarter in (4, 3, 2, 1, 0)
        ],
        first_at=ended[0].nominal_at,
        last_at=ended[-1].nominal_at,
        median=median,
        median_y=_y(median, top),
        p95=p95,
        p95_y=_y(p95, top),
        timeout=shown,
        timeout_y=None if shown is None else _y(shown, top),
        count=len(ended),
    )


_ROUND = (1, 2, 4, 6, 8, 12, 20, 40, 60)


def _top(most: float) -> float:
    """Round up to a round duration."""
    for unit in (0.001, 1.0, 60.0, 3600.0, 86_400.0):
        for count in _ROUND:
            for ten in (1, 10, 100) if unit == 0.001 else (1,):
                if count * ten * unit >= most:
                    return count * ten * unit
    return most


def _y(value: float, top: float) -> str:
    return f"{charts.HEIGHT * (1 - min(value, top) / top):.1f}".removesuffix(".0")
