"""Numbers, rates and durations in words, for the terminal and the dashboard. Pure.

A duration has two spellings: `4 min 10 s` in sentences and on pages (`duration`), and `4m 10s` in
columns of the terminal (`span`), as its flags take it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_UNREADABLE = "unreadable"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TINY = 0.001


def number(value: float | None) -> str:
    """Return `12,345`; empty for an unknown value."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return _UNREADABLE
    if float(value).is_integer():
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < _TINY:
        return f"{'−' if value < 0 else ''}< 0.001"
    # Three significant digits, and never an exponent.
    return plain(float(f"{value:.3g}"))


def plain(value: float) -> str:
    """Return the number as a user would type it: `1000000`, `0.05`; no commas, and never an
    exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def rate(per_second: float | None) -> str:
    """Return `1,200/s`, `2.5/s`, `0.3/min`, `4/h`: in a unit in which it is no small fraction."""
    if per_second is None:
        return ""
    if not math.isfinite(per_second):
        return _UNREADABLE
    if per_second <= 0:
        return "0/s"
    for size, unit in ((1, "s"), (_MINUTE, "min"), (_HOUR, "h"), (_DAY, "d")):
        value = per_second * size
        if value >= 0.1:
            return f"{value:,.0f}/{unit}" if value >= 99.95 else f"{_tenths(value)}/{unit}"
    return "< 0.1/d"


def _tenths(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def plural(count: float, one: str, many: str | None = None) -> str:
    """`1 run`, `12 runs`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    """Return `93.3 %` for a share between 0 and 1."""
    if share is None:
        return ""
    if not math.isfinite(share):
        return _UNREADABLE
    value = share * 100
    if value == 0 or value >= 99.95:
        return f"{value:.0f} %"
    return f"{value:.3g} %" if value >= 0.01 else "< 0.01 %"


def duration(seconds: float | None) -> str:
    """`84 ms`, `4.2 s`, `4 min 10 s`, `2 h 14 min`, `3 d 4 h`."""
    if seconds is None:
        return ""
    if not math.isfinite(seconds):
        return _UNREADABLE
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 0.9995:
        return f"{_milliseconds(seconds * 1000)} ms"
    if seconds < 10:
        return f"{seconds:.2g} s"
    return _whole(round(seconds))


def _milliseconds(value: float) -> str:
    if value >= 10:
        return f"{value:.0f}"
    return f"{value:.2g}" if value >= 0.01 else "0"


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


def span(seconds: float) -> str:
    """Return `45s`, `12m`, `2h 5m`, `3d 4h`: whole seconds, two units at most."""
    if not math.isfinite(seconds):
        return _UNREADABLE
    left = max(0, round(seconds))
    for size, unit, smaller, its_unit in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "m"),
        (_MINUTE, "m", 1, "s"),
    ):
        if left >= size:
            rest = left % size // smaller
            return f"{left // size}{unit}" + (f" {rest}{its_unit}" if rest else "")
    return f"{left}s"


def took(milliseconds: float | None) -> str:
    """Return `84 ms`, `1.2 s`, `3m 20s`: a run time in a column of the terminal."""
    if milliseconds is None:
        return ""
    if not math.isfinite(milliseconds):
        return _UNREADABLE
    if milliseconds < 999.5:
        return f"{_milliseconds(milliseconds)} ms"
    seconds = milliseconds / 1000
    return f"{_tenths(seconds)} s" if seconds < 59.95 else span(seconds)


def roughly(seconds: float) -> str:
    """Return one unit only, for a value that changes while it is read."""
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
    """Return `a, b, c and 4 more`; `none` for an empty list."""
    shown = ", ".join(names[:most]) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
