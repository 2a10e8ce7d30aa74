"""The one reader of durations: every interface takes the same values.

A duration is a number of seconds (`90`, `0.5`), a timedelta, or a text: `90`, `90s`, `15min`,
`1h30m`, `2 d 4 h`, or ISO 8601 (`PT1H30M`, `P1DT12H`). Months and years have no fixed length and
are refused.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

# The type of every argument that is a duration.
Duration = float | str | timedelta
EXAMPLES = "90s, 15min, 1h30m, 2d"

_UNITS = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "d": 86_400,
    "w": 604_800,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|sec|s|min|m|h|d|w)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_ISO = re.compile(
    r"P(?=[0-9T])(?:(?P<w>[0-9]+(?:\.[0-9]+)?)W)?(?:(?P<d>[0-9]+(?:\.[0-9]+)?)D)?"
    r"(?:T(?=[0-9])(?:(?P<h>[0-9]+(?:\.[0-9]+)?)H)?(?:(?P<m>[0-9]+(?:\.[0-9]+)?)M)?(?:(?P<s>[0-9]+(?:\.[0-9]+)?)S)?)?"
)
# Larger whole numbers exceed any duration, and some exceed any float.
_LARGEST = 10**15
_DATE = re.compile(r"[0-9]{8,}")
# No real duration needs more characters; longer texts are not matched.
_LONGEST_TEXT = 100


def read_duration(value: Any) -> float | None:
    """Return the seconds of a duration; None if the value is not one."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return float(min(max(value, -_LARGEST), _LARGEST))
    return value if math.isfinite(value) else None


def is_duration(text: str) -> bool:
    """Return whether a text that may also be a time is a duration: `20261102` is a date."""
    return read_duration(text) is not None and not _DATE.fullmatch(text.strip())


def _of_text(text: str) -> float | None:
    words = text.strip()[: _LONGEST_TEXT + 1]
    if len(words) > _LONGEST_TEXT:
        return None
    if found := _ISO.fullmatch(words.upper()):
        return _sum((number, unit) for unit, number in found.groupdict().items() if number)
    words = words.lower()
    if _NUMBER.fullmatch(words):
        return float(words)
    parts = _PART.findall(words)
    if not parts or _PART.sub("", words).strip():
        return None
    return _sum(parts)


def _sum(parts: Any) -> float:
    # Round to a nanosecond, so that 1.1s + 2.2s is 3.3.
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts), 9)


def write_duration(seconds: float) -> str:
    """`90s`, `15min`, `1d`: exactly, as the reader above takes it."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
