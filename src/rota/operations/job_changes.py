"""Converts and checks the arguments of `app.jobs.update` for the columns of `rota.jobs`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from rota.config import Config
from rota.errors import InputError, JobError
from rota.jobs.deliveries import DeclaredDelivery, check_event_delivery
from rota.jobs.encoding import encode_value
from rota.jobs.values import (
    check_backoff,
    check_duration,
    check_event_filters,
    check_events,
    check_level,
    check_number,
    check_tags,
    check_tenant,
    check_text,
    with_short_names,
)
from rota.model.backoff import Backoff
from rota.model.durations import Duration
from rota.model.instants import LONGEST_SECONDS
from rota.model.retention import Retention


class JobSettings(TypedDict, total=False):
    """Arguments of `app.jobs.create` and `update`, for type checkers."""

    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout: Duration | None
    backoff: Backoff | Mapping[str, Any] | str
    tags: Iterable[str]
    metadata: Mapping[str, Any]
    default_payload: Mapping[str, Any] | None
    payload: Mapping[str, Any] | None  # a shorter name of default_payload
    events: Iterable[str]
    event_filters: Mapping[str, Mapping[str, Any]]
    event_delivery: DeclaredDelivery | Mapping[str, Any] | None
    log_level: str | None
    retention: Retention | Mapping[str, Any] | None
    delay: Duration | None
    expires_in: Duration | None
    key: str | None
    tenant: str | None
    run_as: str | None  # of SQL jobs, like the next
    transaction_mode: str


class JobSettingKeywords(JobSettings, total=False):
    """The same arguments, also under the names of columns and JobInfo."""

    timeout_seconds: Duration | None
    delay_seconds: Duration | None
    expires_in_seconds: Duration | None


class JobChanges(JobSettings, total=False):
    """Arguments of `app.jobs.update`, for type checkers."""

    function: str


class JobChangeKeywords(JobSettingKeywords, JobChanges, total=False):
    """The same arguments, also under the names of columns and JobInfo."""

    function_name: str


def check_name(name: str) -> None:
    try:
        check_text("name", name, most=200)
    except ValueError as error:
        raise JobError(f"job {name!r}: {error}") from None


def columns_of(name: str, changes: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Raise JobError for unknown settings and invalid values."""
    try:
        named = with_short_names(changes, OTHER_NAMES)
        return {COLUMNS[key]: _check(key, value, config) for key, value in named.items()}
    except KeyError as error:
        raise JobError(
            f"unknown job setting {error.args[0]!r}; choose from {', '.join(COLUMNS)}"
        ) from None
    except (ValueError, InputError) as error:
        raise JobError(f'job "{name}": {error}') from None


def columns_to_reset(names: bool | Sequence[str]) -> list[str]:
    """Return the columns to reset; True means all."""
    if isinstance(names, bool):
        return list(COLUMNS.values()) if names else []
    given = [COLUMNS.get(OTHER_NAMES.get(name, name), name) for name in names]
    unknown = sorted(set(given) - set(COLUMNS.values()))
    if unknown:
        raise JobError(f"unknown job setting {unknown[0]!r}; choose from {', '.join(COLUMNS)}")
    return given


COLUMNS = {
    "description": "description",
    "queue": "queue",
    "priority": "priority",
    "max_attempts": "max_attempts",
    "timeout": "timeout_seconds",
    "backoff": "backoff",
    "tags": "tags",
    "metadata": "metadata",
    "default_payload": "default_payload",
    "events": "events",
    "event_filters": "event_filters",
    "event_delivery": "event_delivery",
    "log_level": "log_level",
    "retention": "retention",
    "delay": "delay_seconds",
    "expires_in": "expires_in_seconds",
    "key": "key",
    "tenant": "tenant",
    "function": "function_name",
    "run_as": "run_as",
    "transaction_mode": "transaction_mode",
}
# The names in the columns, the API and JobInfo.
OTHER_NAMES = {
    "payload": "default_payload",
    **{column: name for name, column in COLUMNS.items() if column != name},
}
# Settings that None removes.
_CLEARABLE = frozenset(
    {"timeout", "log_level", "retention", "delay", "expires_in", "key", "tenant"}
    | {"default_payload", "run_as"}
)


def _check(key: str, value: Any, config: Config) -> Any:
    if value is None and key in _CLEARABLE:
        return None
    if key == "backoff":
        return check_backoff(value, config.runs.default_backoff()).to_json()
    return _CHECKS[key](key, value)


def _object(key: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} must be a mapping, not {value!r}")
    return json.loads(encode_value(value, key))


def _retention(key: str, value: Any) -> Any:
    return Retention.parse(value).to_json() or None if value else None


def _mode(key: str, value: Any) -> Any:
    if value not in ("whole", "none"):
        raise ValueError(f"{key} must be whole or none, not {value!r}")
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "description": lambda key, value: check_text(key, value, 10_000, 0),
    "queue": lambda key, value: check_text(key, value, 100),
    "priority": lambda key, value: check_number(key, value, 0, 9),
    "max_attempts": lambda key, value: check_number(key, value, 1, 100),
    "timeout": check_duration,
    "tags": lambda key, value: list(check_tags(key, value)),
    "metadata": _object,
    "default_payload": _object,
    "events": lambda key, value: list(check_events(key, value)),
    "event_filters": check_event_filters,
    "event_delivery": check_event_delivery,
    "log_level": check_level,
    "retention": _retention,
    "delay": lambda key, value: check_duration(key, value, 0, LONGEST_SECONDS),
    "expires_in": lambda key, value: check_duration(key, value, most=LONGEST_SECONDS),
    "key": lambda key, value: check_text(key, value, 200),
    "tenant": check_tenant,
    "function": lambda key, value: check_text(key, value, 1000),
    "run_as": lambda key, value: check_text(key, value, 63),
    "transaction_mode": _mode,
}
