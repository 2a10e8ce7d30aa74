"""Numbers and durations as people read them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_UNREADABLE = "unreadable"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def number(value: float | None) -> str:
    """`12,345`; what is not known is nothing."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return _UNREADABLE
    if not float(value).is_integer():
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    return f"{int(value):,}"


def plural(count: float, one: str, many: str | None = None) -> str:
    """`1 run`, `12 runs`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    """`93.3 %` of a share between 0 and 1."""
    if share is None:
        return ""
    if not math.isfinite(share):
        return _UNREADABLE
    value = share * 100
    return f"{value:.0f} %" if value == 0 or value >= 99.95 else f"{value:.3g} %"


def duration(seconds: float | None) -> str:
    """`84 ms`, `4.2 s`, `4 min 10 s`, `2 h 14 min`, `3 d 4 h`."""
    if seconds is None:
        return ""
    if not math.isfinite(seconds):
        return _UNREADABLE
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2g} ms"
    if seconds < 10:
        return f"{seconds:.2g} s"
    return _whole(round(seconds))


def _whole(seconds: int) -> str:
    for size, unit, smaller, its_unit in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {its_unit}" if rest else "")
    return f"{seconds} s"


def roughly(seconds: float) -> str:
    """One unit only, for what changes while one reads it."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def size(count: int) -> str:
    """`812 B`, `14 kB`, `2.1 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def some_of(names: Sequence[str], most: int = 5) -> str:
    """`a, b, c and 4 more`; `none` of none."""
    shown = ", ".join(names[:most]) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
