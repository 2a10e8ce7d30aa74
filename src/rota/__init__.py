"""Rota: the PostgreSQL-native job control plane for Python."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.app import App
    from rota.config import Config
    from rota.errors import (
        AttemptTimeout,
        AuditEntryNotFound,
        BulkActionNotFound,
        CalendarNotFound,
        Cancel,
        ConfigError,
        Control,
        DatabaseError,
        DuplicateKey,
        EmbeddedError,
        ErrorGroupNotFound,
        EventNotFound,
        FilterError,
        InputError,
        JobError,
        LeaseLost,
        LimitError,
        LimitNotFound,
        MissingExtra,
        PayloadError,
        QueueFull,
        QueueNotFound,
        QuotaExceeded,
        ResultError,
        Retry,
        RotaError,
        RunFailed,
        RunNotFound,
        ScheduleNotFound,
        SchemaError,
        SearchError,
        Snooze,
        TemplateNotFound,
        TenantNotFound,
        TimingError,
        UnknownJob,
        UnknownOption,
        VersionConflict,
        ViewNotFound,
        WaitTimeout,
        WatchNotFound,
        WorkerNotFound,
        WrongState,
    )
    from rota.jobs.context import Context
    from rota.jobs.decorator import Job
    from rota.jobs.deliveries import debounce, throttle
    from rota.jobs.handle import Run
    from rota.jobs.limits import concurrency, rate, sequence
    from rota.jobs.on import on
    from rota.jobs.timings import after, cron, every, on_start, once
    from rota.model.attempt import AttemptInfo
    from rota.model.audit import AuditEntry
    from rota.model.backoff import Backoff
    from rota.model.calendar import CalendarInfo
    from rota.model.details import RunDetails
    from rota.model.drift import Drift
    from rota.model.event import EventInfo
    from rota.model.hook import AttemptFailure, DeadLetter
    from rota.model.job import JobInfo
    from rota.model.limit import LimitInfo
    from rota.model.log import LogLine, LogPage
    from rota.model.occurrence import OccurrenceInfo
    from rota.model.page import Page
    from rota.model.queue import QueueInfo
    from rota.model.retention import Retention
    from rota.model.run import RunInfo
    from rota.model.schedule_info import BackfillInfo, ScheduleInfo, Triggered
    from rota.model.states import (
        AttemptState,
        JobKind,
        RunState,
        ScheduleState,
        Strategy,
        WorkerStatus,
    )
    from rota.model.stats import Stats
    from rota.model.tenant import TenantInfo
    from rota.model.worker import WorkerInfo
    from rota.operations.tenants.handle import Tenant

__version__ = "0.1.0"

__all__ = [
    "App",
    "AttemptFailure",
    "AttemptInfo",
    "AttemptState",
    "AttemptTimeout",
    "AuditEntry",
    "AuditEntryNotFound",
    "BackfillInfo",
    "Backoff",
    "BulkActionNotFound",
    "CalendarInfo",
    "CalendarNotFound",
    "Cancel",
    "Config",
    "ConfigError",
    "Context",
    "Control",
    "DatabaseError",
    "DeadLetter",
    "Drift",
    "DuplicateKey",
    "EmbeddedError",
    "ErrorGroupNotFound",
    "EventInfo",
    "EventNotFound",
    "FilterError",
    "InputError",
    "Job",
    "JobError",
    "JobInfo",
    "JobKind",
    "LeaseLost",
    "LimitError",
    "LimitInfo",
    "LimitNotFound",
    "LogLine",
    "LogPage",
    "MissingExtra",
    "OccurrenceInfo",
    "Page",
    "PayloadError",
    "QueueFull",
    "QueueInfo",
    "QueueNotFound",
    "QuotaExceeded",
    "ResultError",
    "Retention",
    "Retry",
    "RotaError",
    "Run",
    "RunDetails",
    "RunFailed",
    "RunInfo",
    "RunNotFound",
    "RunState",
    "ScheduleInfo",
    "ScheduleNotFound",
    "ScheduleState",
    "SchemaError",
    "SearchError",
    "Snooze",
    "Stats",
    "Strategy",
    "TemplateNotFound",
    "Tenant",
    "TenantInfo",
    "TenantNotFound",
    "TimingError",
    "Triggered",
    "UnknownJob",
    "UnknownOption",
    "VersionConflict",
    "ViewNotFound",
    "WaitTimeout",
    "WatchNotFound",
    "WorkerInfo",
    "WorkerNotFound",
    "WorkerStatus",
    "WrongState",
    "after",
    "concurrency",
    "cron",
    "debounce",
    "every",
    "on",
    "on_start",
    "once",
    "rate",
    "sequence",
    "throttle",
]

# Imported when first asked for: the command line shall answer `--help` without the half second
# that drivers and validators take.
_HOMES = {
    "App": "rota.app",
    "AttemptFailure": "rota.model.hook",
    "AttemptInfo": "rota.model.attempt",
    "AttemptState": "rota.model.states",
    "AttemptTimeout": "rota.errors",
    "AuditEntry": "rota.model.audit",
    "AuditEntryNotFound": "rota.errors",
    "BackfillInfo": "rota.model.schedule_info",
    "Backoff": "rota.model.backoff",
    "BulkActionNotFound": "rota.errors",
    "CalendarInfo": "rota.model.calendar",
    "CalendarNotFound": "rota.errors",
    "Cancel": "rota.errors",
    "Config": "rota.config",
    "ConfigError": "rota.errors",
    "Context": "rota.jobs.context",
    "Control": "rota.errors",
    "DatabaseError": "rota.errors",
    "DeadLetter": "rota.model.hook",
    "Drift": "rota.model.drift",
    "DuplicateKey": "rota.errors",
    "EmbeddedError": "rota.errors",
    "ErrorGroupNotFound": "rota.errors",
    "EventInfo": "rota.model.event",
    "EventNotFound": "rota.errors",
    "FilterError": "rota.errors",
    "InputError": "rota.errors",
    "Job": "rota.jobs.decorator",
    "JobError": "rota.errors",
    "JobInfo": "rota.model.job",
    "JobKind": "rota.model.states",
    "LeaseLost": "rota.errors",
    "LimitError": "rota.errors",
    "LimitInfo": "rota.model.limit",
    "LimitNotFound": "rota.errors",
    "LogLine": "rota.model.log",
    "LogPage": "rota.model.log",
    "MissingExtra": "rota.errors",
    "OccurrenceInfo": "rota.model.occurrence",
    "Page": "rota.model.page",
    "PayloadError": "rota.errors",
    "QueueFull": "rota.errors",
    "QueueInfo": "rota.model.queue",
    "QueueNotFound": "rota.errors",
    "QuotaExceeded": "rota.errors",
    "ResultError": "rota.errors",
    "Retention": "rota.model.retention",
    "Retry": "rota.errors",
    "RotaError": "rota.errors",
    "Run": "rota.jobs.handle",
    "RunDetails": "rota.model.details",
    "RunFailed": "rota.errors",
    "RunInfo": "rota.model.run",
    "RunNotFound": "rota.errors",
    "RunState": "rota.model.states",
    "ScheduleInfo": "rota.model.schedule_info",
    "ScheduleNotFound": "rota.errors",
    "ScheduleState": "rota.model.states",
    "SchemaError": "rota.errors",
    "SearchError": "rota.errors",
    "Snooze": "rota.errors",
    "Stats": "rota.model.stats",
    "Strategy": "rota.model.states",
    "TemplateNotFound": "rota.errors",
    "Tenant": "rota.operations.tenants.handle",
    "TenantInfo": "rota.model.tenant",
    "TenantNotFound": "rota.errors",
    "TimingError": "rota.errors",
    "Triggered": "rota.model.schedule_info",
    "UnknownJob": "rota.errors",
    "UnknownOption": "rota.errors",
    "VersionConflict": "rota.errors",
    "ViewNotFound": "rota.errors",
    "WaitTimeout": "rota.errors",
    "WatchNotFound": "rota.errors",
    "WorkerInfo": "rota.model.worker",
    "WorkerNotFound": "rota.errors",
    "WorkerStatus": "rota.model.states",
    "WrongState": "rota.errors",
    "after": "rota.jobs.timings",
    "concurrency": "rota.jobs.limits",
    "cron": "rota.jobs.timings",
    "debounce": "rota.jobs.deliveries",
    "every": "rota.jobs.timings",
    "on": "rota.jobs.on",
    "on_start": "rota.jobs.timings",
    "once": "rota.jobs.timings",
    "rate": "rota.jobs.limits",
    "sequence": "rota.jobs.limits",
    "throttle": "rota.jobs.deliveries",
}


# Words that other programs, or drafts of this one, have for them.
_ELSEWHERE = {
    "init": "on_start",
    "crontab": "cron",
    "interval": "every",
    "at": "once",
    "Celery": "App",
}

if not TYPE_CHECKING:  # they would take it that every name is there

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            known = _ELSEWHERE.get(name)
            hint = f"; use rota.{known}" if known else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
