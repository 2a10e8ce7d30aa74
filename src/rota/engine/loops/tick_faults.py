"""Decides who is at fault if a schedule cannot be processed: the schedule, or the worker that
tried.

Only an error in the schedule itself may park it. Otherwise a worker without zone data, or with a
broken library, would park everything that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from rota.errors import TimingError
from rota.timing.zones import is_missing_here

_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")


def fault_of(stored: Mapping[str, Any], calendar: str | None, error: Exception) -> str | None:
    """Return what is wrong with the schedule, as a sentence; None if other workers may succeed."""
    if any(is_missing_here(name) for name in _zones(stored, calendar)):
        return None
    match error:
        case TimingError():
            return str(error)
        case msgspec.ValidationError():
            return _in_words(str(error))
        case OverflowError():
            return f"its times cannot be computed: {error}"
    return None


def _zones(stored: Mapping[str, Any], calendar: str | None) -> list[str]:
    found = [stored.get("timezone")]
    if calendar is not None:
        definition = msgspec.json.decode(calendar)
        if isinstance(definition, dict):
            found.append(definition.get("timezone"))
    return [name for name in found if isinstance(name, str)]


def _in_words(message: str) -> str:
    """Reword a message such as "Expected `object`, got `int` - at `$.requires[0]`"."""
    place = _PLACE.search(message)
    what = _PLACE.sub("", message).replace("`", "")
    column = place[1] if place else "it"
    return f"{column or 'it'} cannot be read: {what[:1].lower()}{what[1:]}"
