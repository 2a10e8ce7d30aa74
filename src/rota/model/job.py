"""A job as the database knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rota.model.states import JobKind, Strategy


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One row of `rota.jobs`; `workers` counts the live ones that know the job.

    `code` is what the code last said, `edited` who changed which field and when. A job that no
    code declares any more has `deleted_from_code_at`. `strategies` are the ways it is started:
    `on_demand` always, `cron`, `interval`, `once` and `init` by schedules, `event` by `events`,
    which are names and patterns; `event_filters` says of some of them which payloads count,
    `event_delivery` whether a burst of them is one run.
    A job of the kind `sql` calls `function_name` as the role `run_as`.
    `delay_seconds`, `expires_in_seconds`, `key` and `tenant` are what its runs have that are
    enqueued without. `definition_hash` stands for all that the code says of it. A run of it last
    ended at `last_run_at`; the first of its schedules is due at `next_run_at`.
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
class SqlFunction:
    """What a SQL job calls, and as which role; `definition` None: there is no such function any
    more."""

    name: str
    run_as: str | None
    definition: str | None
