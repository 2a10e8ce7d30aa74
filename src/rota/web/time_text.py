"""Times in words, beside the numbers and durations of `rota.model.formatting`. Pure: the caller
passes the present time."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from rota.model.formatting import duration, number, percent, plain, plural, roughly, size
from rota.model.unreadable import Unreadable

__all__ = [
    "absolute",
    "clock",
    "duration",
    "number",
    "percent",
    "plain",
    "plural",
    "relative",
    "roughly",
    "short",
    "size",
]


def relative(at: datetime, now: datetime) -> str:
    """Return `4 min ago`, `in 12 s`; from one day on the date, which says more than a count."""
    if isinstance(at, Unreadable):
        return str(at)
    seconds = (now - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{roughly(seconds)} ago" if seconds > 0 else f"in {roughly(-seconds)}"


def clock(at: datetime, zone: tzinfo) -> str:
    return at.astimezone(zone).strftime("%H:%M:%S")


def absolute(at: datetime, zone: tzinfo) -> str:
    """`Thu 22 Oct 2026, 12:41:18 BST`."""
    if isinstance(at, Unreadable):
        return str(at)
    local = at.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S} {local.tzname()}"


def day(at: datetime, zone: tzinfo) -> str:
    """`Thu 22 Oct`."""
    if isinstance(at, Unreadable):
        return str(at)
    local = at.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b}"


def wall(at: datetime, zone: tzinfo) -> str:
    """`02:30`, with seconds where there are some."""
    if isinstance(at, Unreadable):
        return ""
    local = at.astimezone(zone)
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def short(at: datetime, zone: tzinfo, now: datetime) -> str:
    """Return as much of the date as is needed to identify the time."""
    if isinstance(at, Unreadable):
        return str(at)
    local, today = at.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        return f"{local:%H:%M:%S}"
    if abs(local - today) < timedelta(days=180):
        return f"{local.day} {local:%b, %H:%M}"
    return f"{local.day} {local:%b %Y}"
