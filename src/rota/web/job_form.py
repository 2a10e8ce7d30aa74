"""The settings of a job as the texts of a form, and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rota.errors import InputError
from rota.model.job import JobInfo
from rota.model.words import plain
from rota.web.forms import read_payload, read_span
from rota.web.refusals import refusal

# The names in `app.jobs.update`, by the name of the field in the form.
FIELDS = (
    "description", "queue", "priority", "max_attempts", "timeout", "backoff", "tags", "metadata",
    "default_payload", "events", "event_filters", "event_delivery", "log_level", "retention",
    "delay", "expires_in", "key", "tenant",
)  # fmt: skip
# Fields of a job that calls a function of the database.
SQL_FIELDS = ("function", "run_as", "transaction_mode")
_COLUMNS = {
    "timeout": "timeout_seconds", "delay": "delay_seconds", "expires_in": "expires_in_seconds",
    "function": "function_name",
}  # fmt: skip


def texts_of(job: JobInfo) -> dict[str, str]:
    """Return the stored values as the texts of the fields."""
    return {name: _text(name, getattr(job, _COLUMNS.get(name, name))) for name in fields_of(job)}


def fields_of(job: JobInfo) -> tuple[str, ...]:
    return (*FIELDS, *SQL_FIELDS) if job.kind == "sql" else FIELDS


def _text(name: str, value: Any) -> str:
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, float):
        return plain(value)
    if name == "retention" and isinstance(value, Mapping):
        return ", ".join(f"{key}={days}" for key, days in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return str(value)


def read_changes(
    given: Mapping[str, str], before: Mapping[str, str], fields: Sequence[str] = FIELDS
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the changes since the form was shown, and the problems by field."""
    changes: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name in fields:
        text = _plain(given.get(name, before[name]))
        if text == _plain(before[name]):
            continue
        try:
            changes[name] = _READERS[name](text)
        except (ValueError, InputError) as error:
            wrong[name] = refusal(error)
    return changes, wrong


def _plain(text: str) -> str:
    """Normalize line ends: forms send CR LF."""
    return text.replace("\r\n", "\n").strip()


def field_of(message: str) -> str | None:
    """Return the field that an error is about: `job "send": priority must be …`."""
    words = message.rpartition('": ')[2].removeprefix("each of ")
    name = words.partition(" ")[0].rstrip(":")
    known = (*FIELDS, *SQL_FIELDS)
    return next((field for field in known if name in (field, _COLUMNS.get(field))), None)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number.") from None


def _seconds(text: str) -> float | None:
    """Return None for an empty field: no limit."""
    if not text:
        return None
    if (span := read_span(text)) is not None:
        return span.total_seconds()
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a duration: write 90s, 15min or 2h.") from None


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _backoff(text: str) -> Any:
    return read_payload(text) if text.startswith("{") else text


def _retention(text: str) -> dict[str, int] | None:
    if not text:
        return None
    pairs = [part.partition("=") for part in _names(text)]
    for name, _, number in pairs:
        if not number.strip().isdigit():
            raise ValueError(f"{name!r} has no number: write days=30, failed_days=90.")
    return {name.strip(): int(number) for name, _, number in pairs}


def _text_or_none(text: str) -> str | None:
    return text or None


def _metadata(text: str) -> dict[str, Any]:
    return read_payload(text) or {}


_READERS: dict[str, Callable[[str], Any]] = {
    "description": str,
    "queue": str,
    "priority": _number,
    "max_attempts": _number,
    "timeout": _seconds,
    "backoff": _backoff,
    "tags": _names,
    "metadata": _metadata,
    "default_payload": read_payload,
    "events": _names,
    "event_filters": _metadata,
    "event_delivery": read_payload,
    "log_level": _text_or_none,
    "retention": _retention,
    "delay": _seconds,
    "expires_in": _seconds,
    "key": _text_or_none,
    "tenant": _text_or_none,
    "function": str,
    "run_as": _text_or_none,
    "transaction_mode": str,
}
