"""The record of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rota.model.states import JobKind, Strategy


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One row of `rota.jobs`; `workers` is the number of live workers that know the job.

    `code` is the latest definition in the code, `edited` who changed which field and when. A job
    that is no longer declared has `deleted_from_code_at`. `strategies` are the ways it is started:
    `on_demand` always, `cron`, `interval`, `once` and `init` by schedules, `event` by `events`,
    which are names and patterns; `event_filters` are payload filters for some of them,
    `event_delivery` says whether a burst is combined into one run. A job of the kind `sql` calls
    `function_name` as the role `run_as`.
    `delay_seconds`, `expires_in_seconds`, `key` and `tenant` are defaults for its runs.
    `definition_hash` identifies what the code declares. `last_run_at` is when a run of it last
    ended, `next_run_at` when the first of its schedules is due.
    """

    name: str
    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    backoff: dict[str, Any] | None
    executor: str
    payload_schema: dict[str, Any]
    tags: list[str]
    metadata: dict[str, Any]
    source: str
    workers: int
    created_at: datetime
    updated_at: datetime
    default_payload: dict[str, Any] | None = None
    is_enabled: bool = True
    application: str = ""
    code: dict[str, Any] | None = None
    edited: dict[str, Any] = field(default_factory=dict)
    deleted_from_code_at: datetime | None = None
    version: int = 1
    events: list[str] = field(default_factory=list)
    event_filters: dict[str, Any] = field(default_factory=dict)
    event_delivery: dict[str, Any] | None = None
    log_level: str | None = None
    strategies: list[Strategy] = field(default_factory=list)
    retention: dict[str, int] | None = None
    kind: JobKind = "python"
    function_name: str | None = None
    run_as: str | None = None
    transaction_mode: str | None = None
    is_system: bool = False
    delay_seconds: float | None = None
    expires_in_seconds: float | None = None
    key: str | None = None
    tenant: str | None = None
    definition_hash: str | None = None
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobFunction:
    """A function or procedure of the database that a job can call, with its schema. `jobs` are
    those that call it; `description` is its comment."""

    function_name: str
    arguments: str
    kind: Literal["function", "procedure"]
    transaction_mode: str
    owner: str
    description: str
    jobs: list[str]


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """The function that a SQL job calls, and the role it runs as. `definition` is None if the
    function no longer exists."""

    name: str
    run_as: str | None
    definition: str | None
