"""Binds a job to an event, with a filter: `@app.job(events=[rota.on("order.*", where={…})])`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rota.errors import InputError, JobError
from rota.jobs.values import check_event, check_filter


@dataclass(frozen=True, slots=True)
class On:
    """An event name or pattern, and the filter that a payload must match; {} matches every
    payload."""

    event: str
    where: Mapping[str, Any]


def on(event: str, *, where: Mapping[str, Any] | None = None) -> On:
    """Bind a job to an event with a filter: `rota.on("order.*", where={"status": "paid", "total":
    {">=": 100}})`. A `*` matches any characters. The payload must contain these values; an
    object with `=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not_in` or `exists` compares."""
    try:
        return On(check_event("event", event), check_filter(where or {}))
    except (ValueError, InputError) as error:
        raise JobError(f"rota.on: {error}") from None


def bindings(name: str, value: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return names and patterns, each once, and the filters of those that have one."""
    given = (value,) if isinstance(value, str | On) else value
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"{name} must be a list of names, not {value!r}")
    found: dict[str, Mapping[str, Any]] = {}
    for binding in given:
        event, where = (binding.event, binding.where) if isinstance(binding, On) else (binding, {})
        event = check_event(f"each of {name}", event)
        if found.setdefault(event, where) != where:
            raise ValueError(f'{name} names "{event}" twice, with different filters')
    return tuple(found), {event: dict(where) for event, where in found.items() if where}
