"""The fields of a schedule with their labels, and their values in a few words; fields of other
objects too, by their kind of value. Pure."""

from __future__ import annotations

import json
from typing import Any

from rota.model.schedule_fields import schedule_settings
from rota.web import time_text

_LONGEST = 200


def label_of(column: str) -> str:
    one = schedule_settings().get(column)
    label = column.removesuffix("_seconds").replace("_", " ") if one is None else one.label
    return f"{label[:1].lower()}{label[1:]}"


def value_of(column: str, value: Any) -> str:
    """Return the value on one line; cut it if it is long."""
    text = _words(column, value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _words(column: str, value: Any) -> str:
    one = schedule_settings().get(column)
    if value is None or value in ("", [], {}):
        return one.shown(None) if one is not None and value is None else "none"
    try:
        return _plain(column, value) if one is None else one.shown(value)
    except (AttributeError, KeyError, TypeError, ValueError):
        # Plain SQL may have written anything.
        return _plain(column, value)


def _plain(column: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith("_seconds") and isinstance(value, int | float):
        return time_text.duration(float(value))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
