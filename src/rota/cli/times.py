"""Times and durations as people say them."""

from __future__ import annotations

from datetime import datetime

_STEPS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def span(seconds: float) -> str:
    """`45s`, `12m`, `2h 5m`, `3d 4h`: two steps at most."""
    left = max(0, round(seconds))
    parts: list[str] = []
    for size, unit in _STEPS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part) or "0s"


def took(milliseconds: float | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 60 else span(seconds)


def ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    seconds = (now - at).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def absolute(at: datetime | None) -> str:
    """In the viewer's zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if at else ""


def shown(at: datetime | None, now: datetime, is_absolute: bool) -> str:
    return absolute(at) if is_absolute else ago(at, now)


def both(at: datetime | None, now: datetime) -> str:
    return f"{absolute(at)} ({ago(at, now)})" if at else ""
