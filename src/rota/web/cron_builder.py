"""A cron expression in three equivalent forms: a line, five fields, and boxes to tick.

A form sends all three and the line that they were made from; the one that differs is the one that
the user changed. So the builder works without a script, too. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rota.errors import TimingError
from rota.timing.cron import expand
from rota.web.forms import Form

_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True, slots=True)
class Part:
    """One of the five fields. `boxes` are values with their labels; empty for minutes."""

    name: str
    label: str
    takes: str
    first: int
    last: int
    unit: str
    boxes: tuple[tuple[int, str], ...] = ()


PARTS = (
    Part("minute", "Minute", "0 to 59", 0, 59, "minute"),
    Part("hour", "Hour", "0 to 23", 0, 23, "hour", tuple((n, f"{n:02}") for n in range(24))),
    Part("day", "Day", "1 to 31, L", 1, 31, "day", tuple((n, str(n)) for n in range(1, 32))),
    Part(
        "month",
        "Month",
        "1 to 12",
        1,
        12,
        "month",
        tuple((n, name.capitalize()) for n, name in enumerate(_MONTHS, 1)),
    ),
    Part(
        "weekday",
        "Weekday",
        "0 to 7",
        0,
        7,
        "day of the week",
        tuple((n, _DAYS[n].capitalize()) for n in (1, 2, 3, 4, 5, 6, 0)),
    ),
)


@dataclass(frozen=True, slots=True)
class Box:
    value: int
    label: str
    is_ticked: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A field as the page shows it."""

    part: Part
    value: str
    words: str
    boxes: list[Box]


@dataclass(frozen=True, slots=True)
class Builder:
    """`fields` is empty if the expression does not have five fields. `source` is the form that was
    changed; the page must not replace it while the user edits it."""

    line: str
    fields: list[Shown]
    source: str | None = None


def build(line: str, source: str | None = None) -> Builder:
    values = fields_of(line)
    return Builder(
        line,
        [_shown(part, value) for part, value in zip(PARTS, values, strict=False)],
        source,
    )


def read_builder(form: Form, template: str | None) -> tuple[str, str | None]:
    """Return the line that the user means, and the form that was changed."""
    line, was = _clean(form.get("cron", "")), _clean(form.get("was_cron", ""))
    if template is not None:
        return template, "template"
    if line != was:
        return line, "line"
    before = fields_of(was)
    given = [_clean(form.get(f"cron_{part.name}", "")).replace(" ", "") for part in PARTS]
    if before and all(given) and given != before:
        return " ".join(given), "fields"
    if before and "cron_boxes" in form and (ticked := _ticked(form, before)) != before:
        return " ".join(ticked), "boxes"
    return line, None


def fields_of(line: str) -> list[str]:
    """Return the five fields; an empty list if the expression has another number of fields."""
    try:
        found = expand(line).split()
    except TimingError:
        return []
    return found if len(found) == len(PARTS) else []


def _ticked(form: Form, before: list[str]) -> list[str]:
    """Return the fields; a field whose boxes were changed is replaced."""
    found = []
    for part, value in zip(PARTS, before, strict=True):
        known = {number for number, _ in part.boxes}
        sent = {int(one) for one in form.all(f"box_{part.name}") if one.isdecimal()} & known
        is_same = not part.boxes or sent == (values_of(part, value) or set())
        found.append(value if is_same else compress(sent))
    return found


def _shown(part: Part, value: str) -> Shown:
    ticked = values_of(part, value) or set()
    boxes = [Box(number, label, number in ticked) for number, label in part.boxes]
    return Shown(part, value, in_words(part, value), boxes)


def values_of(part: Part, field: str) -> set[int] | None:
    """Return the values that a field names; empty for all values, None if boxes cannot express the
    field."""
    if field == "*":
        return set()
    found: set[int] = set()
    for item in field.upper().split(","):
        match = re.fullmatch(r"(\*|\w+)(?:-(\w+))?(?:/(\d{1,2}))?", item)
        if match is None:
            return None
        ends = _ends(part, match[1], match[2], match[3] is not None)
        if ends is None or ends[0] > ends[1] or match[3] == "0":
            return None
        found |= set(range(ends[0], ends[1] + 1, int(match[3] or 1)))
    if not all(part.first <= value <= part.last for value in found):
        return None
    return {value % 7 for value in found} if part.name == "weekday" else found


def _ends(part: Part, first: str, last: str | None, has_step: bool) -> tuple[int, int] | None:
    if first == "*":
        return (part.first, 6 if part.name == "weekday" else part.last) if last is None else None
    low = _number(part, first)
    high = _number(part, last) if last is not None else part.last if has_step else low
    return None if low is None or high is None else (low, high)


def _number(part: Part, text: str) -> int | None:
    if text.isdecimal() and len(text) <= 2:
        return int(text)
    if part.name == "weekday" and text in _DAYS:
        return _DAYS.index(text)
    return _MONTHS.index(text) + 1 if part.name == "month" and text in _MONTHS else None


def compress(values: set[int]) -> str:
    """Write values as in `1-5,7`; `*` if there are none."""
    if not values:
        return "*"
    parts: list[str] = []
    ordered = sorted(values)
    start = 0
    for n, value in enumerate(ordered):
        is_last = n + 1 == len(ordered) or ordered[n + 1] != value + 1
        if is_last:
            run = ordered[start : n + 1]
            parts.append(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)))
            start = n + 1
    return ",".join(parts)


def in_words(part: Part, field: str) -> str:
    if field == "*":
        return f"every {part.unit}"
    step = re.fullmatch(r"\*/(\d{1,2})", field)
    if step is not None:
        return (
            f"every {step[1]} {part.unit}s" if part.name != "weekday" else f"every {step[1]} days"
        )
    if part.name == "day" and field.upper() == "L":
        return "the last day of the month"
    found = values_of(part, field)
    if not found:
        return ""
    labels = dict(part.boxes)
    shown = [labels.get(value, str(value)) for value in sorted(found)]
    text = (
        ", ".join(shown) if len(shown) <= 7 else f"{', '.join(shown[:6])} and {len(shown) - 6} more"
    )
    return f"at {text}" if part.name in ("minute", "hour") else text


def _clean(text: str) -> str:
    return " ".join(text.split())
