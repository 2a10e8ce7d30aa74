"""Figures as SVG paths: plots are drawn here, their text is in the HTML beside them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT = 600.0, 100.0


def steps(values: Sequence[float], top: float, count: int | None = None) -> str:
    """Return a line of steps: the count of a minute holds for that minute. `count` is the number
    of steps of the whole axis, if there are more of them."""
    width = WIDTH / max(1, count or len(values))
    parts = [
        f"{_at(n * width)} {_up(value, top)}H{_at((n + 1) * width)}"
        for n, value in enumerate(values)
    ]
    return "M" + "L".join(parts) if parts else ""


def area(values: Sequence[float], top: float, count: int | None = None) -> str:
    """Return the steps as an area, filled down to zero."""
    return f"{steps(values, top, count)}V{_at(HEIGHT)}H0z" if values else ""


def line(values: Sequence[float | None], top: float) -> str:
    """Return a line through the middles of the steps, with gaps at unknown values. A value between
    two gaps is as wide as its step."""
    parts: list[str] = []
    width = WIDTH / max(1, len(values))
    around = [None, *values, None]
    for n, (before, value, after) in enumerate(zip(around, values, around[2:], strict=False)):
        if value is None:
            continue
        if before is None and after is None:
            parts.append(f"M{_at(n * width)} {_up(value, top)}h{_at(width)}")
        else:
            begins = "M" if before is None else "L"
            parts.append(f"{begins}{_at((n + 0.5) * width)} {_up(value, top)}")
    return "".join(parts)


def bars(values: Sequence[float], top: float, count: int | None = None, first: int = 0) -> str:
    """Return a bar for each value; the first of them stands at step `first`."""
    width = WIDTH / max(1, count or len(values))
    ground, thick = _at(HEIGHT), _at(width * 0.8)
    return "".join(
        f"M{_at((n + 0.1) * width)} {ground}V{_up(value, top)}h{thick}V{ground}z"
        for n, value in enumerate(values, first)
        if value
    )


def _up(value: float, top: float) -> str:
    return _at(HEIGHT * (1 - min(value, top) / top))


def _at(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
