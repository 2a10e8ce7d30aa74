"""A calendar as the texts of a form, and back. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.errors import TimingError
from rota.timing.windows import WEEKDAYS
from rota.web import time_text
from rota.web.forms import Form

_DAILY = re.compile(r"(\d{1,2}:\d{2}(?::\d{2})?)\s*(?:-|–|to)\s*(\d{1,2}:\d{2}(?::\d{2})?)(.*)")
_DATED = re.compile(r"(\d{4}-\S+)\s+(?:-|–|to)\s+(\d{4}-\S+)")


@dataclass(frozen=True, slots=True)
class CalendarDraft:
    """`holidays` and `windows` have one entry per line."""

    description: str = ""
    timezone: str = "UTC"
    holidays: str = ""
    weekends: tuple[str, ...] = ()
    windows: str = ""


def read_calendar(form: Form) -> CalendarDraft:
    return CalendarDraft(
        description=form.get("description", "").strip(),
        timezone=form.get("timezone", "").strip() or "UTC",
        holidays=form.get("holidays", "").replace("\r\n", "\n").strip(),
        weekends=tuple(day for day in WEEKDAYS if day in form.all("weekends")),
        windows=form.get("windows", "").replace("\r\n", "\n").strip(),
    )


def definition_of(draft: CalendarDraft) -> dict[str, Any]:
    """Raise TimingError with the line that cannot be read. The calendar itself checks the
    values."""
    return {
        "timezone": draft.timezone,
        "holidays": [day for day in re.split(r"[\s,]+", draft.holidays) if day],
        "weekends": list(draft.weekends),
        "windows": [_window(line.strip()) for line in draft.windows.splitlines() if line.strip()],
    }


def _window(line: str) -> dict[str, Any]:
    if match := _DATED.fullmatch(line):
        return {"from": match[1], "to": match[2]}
    match = _DAILY.fullmatch(line)
    if match is None:
        raise TimingError(
            f"window {line!r} cannot be read",
            hint="write 22:00-02:00 FRI SAT, or 2026-03-01T00:00Z to 2026-03-02T00:00Z",
        )
    days = [day.upper() for day in re.split(r"[\s,]+", match[3]) if day]
    hours = {"start": _padded(match[1]), "end": _padded(match[2])}
    return hours | ({"weekdays": days} if days else {})


def _padded(clock: str) -> str:
    return clock if clock[1:2].isdecimal() else f"0{clock}"


def draft_of(description: str, stored: object) -> CalendarDraft:
    """Values that SQL wrote may have any shape; fields that cannot be read are left empty."""
    given = stored if isinstance(stored, Mapping) else {}
    weekends = given.get("weekends")
    days = ["SAT", "SUN"] if weekends is True else weekends
    return CalendarDraft(
        description=description,
        timezone=str(given.get("timezone") or "UTC"),
        holidays="\n".join(map(str, _listed(given.get("holidays")))),
        weekends=tuple(day for day in WEEKDAYS if day in _listed(days)),
        windows="\n".join(_line(window) for window in _listed(given.get("windows"))),
    )


def _line(window: object) -> str:
    if not isinstance(window, Mapping):
        return str(window)
    if "from" in window:
        return f"{window['from']} to {window.get('to')}"
    days = [str(day) for day in _listed(window.get("weekdays"))]
    shown = "" if len(days) in (0, len(WEEKDAYS)) else " " + " ".join(days)
    return f"{window.get('start')}-{window.get('end')}{shown}"


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def closed_words(stored: object) -> str:
    """Return when the calendar is closed, in a few words."""
    draft = draft_of("", stored)
    windows = len(draft.windows.splitlines())
    parts = [
        time_text.plural(len(draft.holidays.splitlines()), "holiday") if draft.holidays else "",
        " ".join(day.capitalize() for day in draft.weekends),
        time_text.plural(windows, "window") if windows else "",
    ]
    return ", ".join(part for part in parts if part) or "never"
