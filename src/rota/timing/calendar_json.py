"""The stored form of a calendar, which people also write by hand: every mistake is named.

{"name": "de", "timezone": "Europe/Berlin", "holidays": ["2026-12-25"], "weekends": true,
 "windows": [{"start": "22:00", "end": "02:00", "weekdays": ["FRI"]},
             {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any, TypeVar

from rota.errors import TimingError
from rota.timing.calendar import Calendar
from rota.timing.windows import WEEKDAYS, DailyWindow, DatedWindow, Window, short

_KEYS = ("name", "timezone", "holidays", "weekends", "windows")
_DAILY = ("start", "end", "weekdays")
_DATED = ("from", "to")

Read = TypeVar("Read")


def to_json(calendar: Calendar) -> dict[str, Any]:
    return {
        "name": calendar.name,
        "timezone": calendar.timezone,
        "holidays": [day.isoformat() for day in sorted(calendar.holidays)],
        "weekends": _in_order(calendar.weekends),
        "windows": [_window_to_json(window) for window in calendar.windows],
    }


def from_json(data: object) -> Calendar:
    given = _object("a calendar", data, _KEYS)
    name = given.get("name")
    where = f"calendar {name!r}"
    if not isinstance(name, str):
        raise TimingError("a calendar needs a name")
    zone_name = given.get("timezone", "UTC")
    if not isinstance(zone_name, str):
        raise TimingError(f"{where}: timezone must be a string, not {zone_name!r}")
    return Calendar(
        name,
        zone_name,
        [
            _read(where, "a date", date.fromisoformat, day)
            for day in _list(given, "holidays", where)
        ],
        _weekends(given.get("weekends", False), where),
        [_window(window, where) for window in _list(given, "windows", where)],
    )


def _window_to_json(window: Window) -> dict[str, Any]:
    if isinstance(window, DatedWindow):
        return {"from": window.start.isoformat(), "to": window.end.isoformat()}
    days = _in_order(window.weekdays)
    return {"start": short(window.start), "end": short(window.end), "weekdays": days}


def _in_order(days: frozenset[Any]) -> list[str]:
    return [day for day in WEEKDAYS if day in days]


def _window(data: object, where: str) -> Window:
    what = f"{where}: a window"
    if isinstance(data, Mapping) and ("from" in data or "to" in data):
        given = _object(what, data, _DATED)
        ends = [_read(where, "an instant", datetime.fromisoformat, given.get(k)) for k in _DATED]
        return DatedWindow(*ends)
    given = _object(what, data, _DAILY)
    start, end = (
        _read(where, "a time of day", time.fromisoformat, given.get(key)) for key in _DAILY[:2]
    )
    days = _list(given, "weekdays", where) if "weekdays" in given else WEEKDAYS
    return DailyWindow(start, end, frozenset(days))


def _weekends(value: object, where: str) -> bool | list[str]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and all(isinstance(day, str) for day in value):
        return value
    raise TimingError(f"{where}: weekends must be true, false or a list of weekdays")


def _object(what: str, data: object, keys: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise TimingError(f"{what} must be an object with {', '.join(keys)}, not {data!r}")
    unknown = sorted(set(map(str, data)) - set(keys))
    if unknown:
        raise TimingError(
            f"{what}: unknown key {', '.join(unknown)}; choose from {', '.join(keys)}"
        )
    return data


def _list(given: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = given.get(key, [])
    if not isinstance(value, list):
        raise TimingError(f"{where}: {key} must be a list, not {value!r}")
    return value


def _read(where: str, what: str, parse: Callable[[str], Read], value: object) -> Read:
    try:
        if isinstance(value, str):
            return parse(value)
    except ValueError:
        pass
    raise TimingError(f"{where}: {value!r} is not {what}")
