"""Figures as SVG paths: plots are drawn here, their text is in the HTML beside them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600.0, 100.0
_STEPS = (1, 2, 2.5, 4, 5, 10)


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from zero to a round number, with the labels of its quarters from the top down."""

    top: float

    @property
    def labels(self) -> list[float]:
        return [self.top * quarter / 4 for quarter in (4, 3, 2, 1, 0)]


def scale(values: Sequence[float]) -> Scale:
    """Return a scale up to the highest value, rounded up to a round number."""
    most = max([*values, 0])
    if most <= 4:
        return Scale(4.0)
    size = 10 ** (len(str(int(most))) - 1)
    return Scale(next(step * size for step in _STEPS if step * size >= most))


def steps(values: Sequence[float], top: float) -> str:
    """Return a line of steps: the count of a minute holds for that minute."""
    width = WIDTH / max(1, len(values))
    parts = [
        f"{_at(n * width)} {_up(value, top)}H{_at((n + 1) * width)}"
        for n, value in enumerate(values)
    ]
    return "M" + "L".join(parts) if parts else ""


def area(values: Sequence[float], top: float) -> str:
    """Return the steps as an area, filled down to zero."""
    return f"{steps(values, top)}V{_at(HEIGHT)}H0z" if values else ""


def line(values: Sequence[float | None], top: float) -> str:
    """Return a line through the middles of the steps, with gaps at unknown values."""
    return _points(values, top, alone=False)


def dots(values: Sequence[float | None], top: float) -> str:
    """Return dots for values between two gaps, which a line does not show."""
    return _points(values, top, alone=True)


def _points(values: Sequence[float | None], top: float, *, alone: bool) -> str:
    parts: list[str] = []
    width = WIDTH / max(1, len(values))
    around = [None, *values, None]
    for n, (before, value, after) in enumerate(zip(around, values, around[2:], strict=False)):
        if value is not None and alone == (before is None and after is None):
            begins = "M" if before is None else "L"
            parts.append(f"{begins}{_at((n + 0.5) * width)} {_up(value, top)}{'h.1' * alone}")
    return "".join(parts)


def bars(values: Sequence[float], top: float) -> str:
    width = WIDTH / max(1, len(values))
    ground, thick = _at(HEIGHT), _at(width * 0.8)
    return "".join(
        f"M{_at((n + 0.1) * width)} {ground}V{_up(value, top)}h{thick}V{ground}z"
        for n, value in enumerate(values)
        if value
    )


def _up(value: float, top: float) -> str:
    return _at(HEIGHT * (1 - min(value, top) / top))


def _at(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
