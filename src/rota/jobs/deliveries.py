"""Rules for the delivery of many events to a job: `@app.job(events=["order.*"],
event_delivery=rota.debounce(5, key="order:{order_id}"))`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.errors import JobError
from rota.jobs.limits import is_template
from rota.jobs.values import SHORTEST, YEAR, check_duration, check_text
from rota.model.durations import Duration

_FIELDS = ("debounce_seconds", "longest_seconds", "throttle_seconds", "key")


@dataclass(frozen=True, slots=True)
class DeclaredDelivery:
    """A checked rule, as stored in `rota.jobs.event_delivery`."""

    debounce_seconds: float | None = None
    longest_seconds: float | None = None
    throttle_seconds: float | None = None
    key: str | None = None

    def to_json(self) -> dict[str, Any]:
        columns = {field: getattr(self, field) for field in _FIELDS}
        return {name: value for name, value in columns.items() if value is not None}


def debounce(
    quiet: Duration,
    *,
    longest: Duration | None = None,
    key: str | None = None,
) -> DeclaredDelivery:
    """Deliver the last event of a burst, when none has arrived for `quiet` seconds, and at the
    latest `longest` after the first. With a key, each of its values has its own burst:
    `rota.debounce(5, longest=60, key="order:{order_id}")`."""
    return _declared({"debounce_seconds": quiet, "longest_seconds": longest, "key": key})


def throttle(per: Duration, *, key: str | None = None) -> DeclaredDelivery:
    """Deliver the first event of each `per` seconds; with a key, for each of its values."""
    return _declared({"throttle_seconds": per, "key": key})


def _declared(given: Mapping[str, Any]) -> DeclaredDelivery:
    try:
        return read_delivery({name: value for name, value in given.items() if value is not None})
    except ValueError as error:
        raise JobError(f"event_delivery: {error}") from None


def check_event_delivery(name: str, value: Any) -> dict[str, Any] | None:
    """Return the rule as it is stored; None: deliver each event when it arrives."""
    if value is None or value == {}:
        return None
    if isinstance(value, DeclaredDelivery):
        return value.to_json()
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be rota.debounce(…) or rota.throttle(…), not {value!r}")
    try:
        return read_delivery(value).to_json()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def read_delivery(given: Mapping[str, Any]) -> DeclaredDelivery:
    """Read a rule; raise ValueError if it is invalid."""
    if odd := [str(name) for name in given if name not in _FIELDS]:
        raise ValueError(f"unknown field {odd[0]}; choose from {', '.join(_FIELDS)}")
    if ("debounce_seconds" in given) == ("throttle_seconds" in given):
        raise ValueError("exactly one of debounce_seconds and throttle_seconds is required")
    if "longest_seconds" in given and "debounce_seconds" not in given:
        raise ValueError("longest_seconds requires debounce_seconds")
    seconds = {
        name: check_duration(name, given[name], least=SHORTEST, most=YEAR)
        for name in _FIELDS[:3]
        if name in given
    }
    if seconds.get("longest_seconds", YEAR) < seconds.get("debounce_seconds", 0):
        raise ValueError("longest_seconds must not be shorter than debounce_seconds")
    return DeclaredDelivery(**seconds, key=_key(given.get("key")))


def _key(value: Any) -> str | None:
    if value is None:
        return None
    if not is_template(check_text("key", value, most=200)):
        raise ValueError(f'key {value!r} is not a template, such as "order:{{order_id}}"')
    return str(value)
