"""Checks of values that job declarations and enqueue options share.

They raise ValueError; the caller turns it into a JobError or an InputError and names the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rota.errors import InputError
from rota.jobs.encoding import encode_value
from rota.model.backoff import Backoff
from rota.model.durations import Duration, read_duration
from rota.model.instants import LONGEST_SECONDS
from rota.model.tenant import LONGEST_NAME, tenant_fault

YEAR = 31_536_000.0
# A float4 column can hold it; shorter timeouts would stop an attempt before it began.
SHORTEST = 0.001


def check_text(name: str, value: Any, most: int, least: int = 1) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, not {value!r}")
    if not least <= len(value) <= most:
        raise ValueError(f"{name} must have {least} to {most} characters, not {len(value)}")
    if "\0" in value:
        raise ValueError(f"{name} contains a NUL character, which Postgres cannot store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} {value!r} is not valid Unicode") from None
    return value


def check_tenant(name: str, value: Any) -> str:
    """Check the name of a tenant; runs without a tenant have ''."""
    fault = tenant_fault(check_text(name, value, most=LONGEST_NAME))
    if fault is not None:
        raise ValueError(f"{name} {fault}, not {value!r}")
    return str(value)


def checked_tenant(name: str) -> str:
    """Return the name; raise InputError if it is not a valid tenant name."""
    try:
        return check_tenant("the name of a tenant", name)
    except ValueError as error:
        raise InputError(str(error)) from None


def with_short_names(given: Mapping[str, Any], others: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments by their short names. A value may also be given by the name of its column or
    JSON key (`timeout_seconds`); raise ValueError if it is given by both."""
    named: dict[str, Any] = {}
    for name, value in given.items():
        short = others.get(name, name)
        if short in named or (short != name and short in given):
            raise ValueError(f"{short} and {name} are the same option; pass only one of them")
        named[short] = value
    return named


def check_number(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value


def check_duration(name: str, value: Any, least: float = SHORTEST, most: float = YEAR) -> float:
    """Return the seconds of a duration: a number, a timedelta or a text."""
    seconds = read_duration(value)
    if seconds is None or not least <= seconds <= most:
        raise ValueError(
            f"{name} must be a duration from {least:.12g} to {most:.12g} s, not {value!r}"
        )
    return seconds


def checked_delay(value: Duration | None) -> float | None:
    """Return a delay in seconds; raise InputError if it is negative or too long."""
    try:
        return None if value is None else check_duration("delay", value, 0, LONGEST_SECONDS)
    except ValueError as error:
        raise InputError(str(error)) from None


def check_tags(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list of strings, not {value!r}")
    return tuple(check_text(f"each of {name}", tag, most=100) for tag in value)


def check_events(name: str, value: Any) -> tuple[str, ...]:
    """Check event names, given as one or many; return each once."""
    given = (value,) if isinstance(value, str) else value
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"{name} must be a list of names, not {value!r}")
    return tuple(dict.fromkeys(check_event(f"each of {name}", event) for event in given))


def check_event_filters(name: str, value: Any) -> dict[str, Any]:
    """Check filters by event or pattern; the database checks their comparisons."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must map events to filters, not {value!r}")
    return {
        check_event(f"each of {name}", key): check_filter(where) for key, where in value.items()
    }


def check_filter(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f'a filter must be a mapping, like {{"status": "paid"}}, not {value!r}')
    return dict(json.loads(encode_value(dict(value), "a filter")))


def check_event(name: str, value: Any) -> str:
    text = check_text(name, value, most=200)
    if len(text.split()) != 1 or text != text.strip():
        raise ValueError(f"{name} must be a name without spaces, like order.paid, not {value!r}")
    return text


def check_backoff(value: Any, default: Backoff | None) -> Backoff:
    if callable(value):
        raise ValueError(
            "backoff cannot be a function here: it is stored with the run; declare it on the job"
        )
    return Backoff.parse(value, default)
