"""Rota: the PostgreSQL-native job control plane for Python."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.admin.tenant_handle import Tenant
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
        JobError,
        LeaseLost,
        LimitError,
        LimitNotFound,
        PayloadError,
        QueueFull,
        QueueNotFound,
        QuotaExceeded,
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
    from rota.jobs.handle import Run
    from rota.jobs.limits import concurrency, rate, sequence
    from rota.jobs.on import on
    from rota.jobs.timings import after, cron, every, init, once
    from rota.model.attempt import AttemptInfo
    from rota.model.backoff import Backoff
    from rota.model.log import LogLine, LogPage
    from rota.model.occurrence import OccurrenceInfo
    from rota.model.retention import Retention
    from rota.model.run import RunInfo
    from rota.model.schedule_info import BackfillInfo, CalendarInfo, ScheduleInfo
    from rota.model.tenant import TenantInfo

__all__ = [
    "App",
    "AttemptInfo",
    "AttemptTimeout",
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
    "DuplicateKey",
    "EmbeddedError",
    "ErrorGroupNotFound",
    "EventNotFound",
    "FilterError",
    "Job",
    "JobError",
    "LeaseLost",
    "LimitError",
    "LimitNotFound",
    "LogLine",
    "LogPage",
    "OccurrenceInfo",
    "PayloadError",
    "QueueFull",
    "QueueNotFound",
    "QuotaExceeded",
    "Retention",
    "Retry",
    "RotaError",
    "Run",
    "RunFailed",
    "RunInfo",
    "RunNotFound",
    "ScheduleInfo",
    "ScheduleNotFound",
    "SchemaError",
    "SearchError",
    "Snooze",
    "TemplateNotFound",
    "Tenant",
    "TenantInfo",
    "TenantNotFound",
    "TimingError",
    "UnknownJob",
    "UnknownOption",
    "VersionConflict",
    "ViewNotFound",
    "WaitTimeout",
    "WatchNotFound",
    "WorkerNotFound",
    "WrongState",
    "after",
    "concurrency",
    "cron",
    "every",
    "init",
    "on",
    "once",
    "rate",
    "sequence",
]

# Imported when first asked for: the command line shall answer `--help` without the half second
# that drivers and validators take.
_HOMES = {
    "App": "rota.app",
    "AttemptInfo": "rota.model.attempt",
    "AttemptTimeout": "rota.errors",
    "AuditEntryNotFound": "rota.errors",
    "BulkActionNotFound": "rota.errors",
    "BackfillInfo": "rota.model.schedule_info",
    "Backoff": "rota.model.backoff",
    "CalendarInfo": "rota.model.schedule_info",
    "CalendarNotFound": "rota.errors",
    "Cancel": "rota.errors",
    "Config": "rota.config",
    "ConfigError": "rota.errors",
    "Context": "rota.jobs.context",
    "Control": "rota.errors",
    "DatabaseError": "rota.errors",
    "DuplicateKey": "rota.errors",
    "EmbeddedError": "rota.errors",
    "ErrorGroupNotFound": "rota.errors",
    "EventNotFound": "rota.errors",
    "FilterError": "rota.errors",
    "Job": "rota.jobs.decorator",
    "JobError": "rota.errors",
    "LeaseLost": "rota.errors",
    "LimitError": "rota.errors",
    "LimitNotFound": "rota.errors",
    "LogLine": "rota.model.log",
    "LogPage": "rota.model.log",
    "OccurrenceInfo": "rota.model.occurrence",
    "PayloadError": "rota.errors",
    "Retention": "rota.model.retention",
    "QueueFull": "rota.errors",
    "QueueNotFound": "rota.errors",
    "QuotaExceeded": "rota.errors",
    "Retry": "rota.errors",
    "RotaError": "rota.errors",
    "Run": "rota.jobs.handle",
    "RunFailed": "rota.errors",
    "RunInfo": "rota.model.run",
    "RunNotFound": "rota.errors",
    "ScheduleInfo": "rota.model.schedule_info",
    "ScheduleNotFound": "rota.errors",
    "SchemaError": "rota.errors",
    "SearchError": "rota.errors",
    "Snooze": "rota.errors",
    "TemplateNotFound": "rota.errors",
    "Tenant": "rota.admin.tenant_handle",
    "TenantInfo": "rota.model.tenant",
    "TenantNotFound": "rota.errors",
    "TimingError": "rota.errors",
    "UnknownJob": "rota.errors",
    "UnknownOption": "rota.errors",
    "VersionConflict": "rota.errors",
    "ViewNotFound": "rota.errors",
    "WaitTimeout": "rota.errors",
    "WatchNotFound": "rota.errors",
    "WorkerNotFound": "rota.errors",
    "WrongState": "rota.errors",
    "after": "rota.jobs.timings",
    "concurrency": "rota.jobs.limits",
    "cron": "rota.jobs.timings",
    "every": "rota.jobs.timings",
    "init": "rota.jobs.timings",
    "on": "rota.jobs.on",
    "once": "rota.jobs.timings",
    "rate": "rota.jobs.limits",
    "sequence": "rota.jobs.limits",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
