"""The settings of a job, declared once for `@app.job` and for operators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypedDict

from rota.jobs.deliveries import DeclaredDelivery, check_event_delivery
from rota.jobs.encoding import encode_value
from rota.jobs.values import (
    check_backoff,
    check_event_filters,
    check_events,
    check_tags,
    check_tenant,
)
from rota.model import job
from rota.model.backoff import Backoff
from rota.model.durations import Duration
from rota.model.fields import Argument, Check, Field, settings_of
from rota.model.retention import MOST_COUNT, MOST_DAYS, Retention

_DAYS, _COUNT = {"least": 1, "most": MOST_DAYS}, {"least": 1, "most": MOST_COUNT}


class JobRetention(TypedDict, total=False):
    """Retention of finished runs and their log lines; null: as configured."""

    days: Annotated[int | None, Field("Days to keep runs.", 90, **_DAYS)]
    count: Annotated[int | None, Field("Number of newest runs to keep.", **_COUNT)]
    failed_days: Annotated[int | None, Field("Days to keep failed runs.", 365, **_DAYS)]
    failed_count: Annotated[int | None, Field("Number of newest failed runs to keep.", **_COUNT)]
    log_days: Annotated[int | None, Field("Days to keep log lines.", **_DAYS)]
    log_count: Annotated[int | None, Field("Number of newest log lines to keep.", **_COUNT)]
    failed_log_days: Annotated[int | None, Field("Days to keep log lines of failed runs.", **_DAYS)]


def _stored(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, not {value!r}")
    return json.loads(encode_value(value, name))


def _retention(name: str, value: Any) -> Any:
    return Retention.parse(value).to_json() or None


def _backoff(name: str, value: Any) -> Any:
    """The value itself: what it leaves out is read from the configuration."""
    check_backoff(value, None)
    return value


def _names(name: str, value: Any) -> list[str]:
    return list(check_events(name, value))


Timeout = Annotated[Duration | None, job.TIMEOUT]
Delay = Annotated[Duration | None, job.DELAY]
ExpiresIn = Annotated[Duration | None, job.EXPIRES_IN]
Metadata = Annotated[Mapping[str, Any], job.METADATA, Check(_stored)]
DefaultPayload = Annotated[Mapping[str, Any] | None, job.DEFAULT_PAYLOAD, Check(_stored)]
Tenant = Annotated[str | None, job.TENANT, Check(check_tenant)]
FunctionName = Annotated[str, job.FUNCTION]


class JobSettings(TypedDict, total=False):
    """Settings that operators change; omitted ones keep their values."""

    description: job.Description
    queue: job.OfQueue
    priority: job.Priority
    max_attempts: job.MaxAttempts
    timeout_seconds: Timeout
    backoff: Annotated[Backoff | Mapping[str, Any] | str, job.BACKOFF, Check(_backoff)]
    tags: Annotated[job.Tags, Check(lambda name, value: list(check_tags(name, value)))]
    metadata: Metadata
    default_payload: DefaultPayload
    events: Annotated[job.Events, Check(_names)]
    event_filters: Annotated[
        Mapping[str, Mapping[str, Any]], job.EVENT_FILTERS, Check(check_event_filters)
    ]
    event_delivery: Annotated[
        DeclaredDelivery | Mapping[str, Any] | None, job.EVENT_DELIVERY, Check(check_event_delivery)
    ]
    log_level: job.MinLogLevel
    retention: Annotated[
        Retention | JobRetention | Mapping[str, Any] | None, job.RETENTION, Check(_retention)
    ]
    delay_seconds: Delay
    expires_in_seconds: ExpiresIn
    key: job.Key
    tenant: Tenant


class SqlJobSettings(JobSettings, total=False):
    """Settings of a new SQL job."""

    run_as: job.RunAs
    transaction_mode: Annotated[job.TransactionMode, job.MODE]


class JobChanges(SqlJobSettings, total=False):
    """Settings of any job; the last ones are those of SQL jobs."""

    function_name: FunctionName


class _OtherNames(TypedDict, total=False):
    timeout: Duration | None
    delay: Duration | None
    expires_in: Duration | None
    payload: Mapping[str, Any] | None


class NewJobKeywords(SqlJobSettings, _OtherNames, total=False):
    """Settings of a new SQL job, also by their short names."""


class JobChangeKeywords(JobChanges, _OtherNames, total=False):
    """Settings of any job, also by their short names."""

    function: str


# The short names, as in `@app.job`, of the names of columns.
SHORT_NAMES = {
    "timeout": "timeout_seconds",
    "delay": "delay_seconds",
    "expires_in": "expires_in_seconds",
    "payload": "default_payload",
    "function": "function_name",
}


# Settings that code declares too: an operator's change can be reset.
RESETTABLE = tuple(JobSettings.__annotations__)
SQL_ONLY = ("function_name", "run_as", "transaction_mode")


@cache
def job_settings() -> dict[str, Argument]:
    """The declared settings by the names of their columns."""
    return {one.name: one for one in settings_of(JobChanges)}
