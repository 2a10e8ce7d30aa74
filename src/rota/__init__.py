"""Rota: the PostgreSQL-native job control plane for Python."""

from __future__ import annotations

from rota.app import App
from rota.config import Config
from rota.errors import (
    AttemptTimeout,
    Cancel,
    ConfigError,
    Control,
    DatabaseError,
    DuplicateKey,
    EmbeddedError,
    JobError,
    LeaseLost,
    PayloadError,
    Retry,
    RotaError,
    RunFailed,
    RunNotFound,
    SchemaError,
    Snooze,
    UnknownJob,
    UnknownOption,
    WaitTimeout,
    WrongState,
)
from rota.jobs.context import Context
from rota.jobs.decorator import Job
from rota.jobs.handle import Run
from rota.model.attempt import AttemptInfo
from rota.model.backoff import Backoff
from rota.model.run import RunInfo

__all__ = [
    "App",
    "AttemptInfo",
    "AttemptTimeout",
    "Backoff",
    "Cancel",
    "Config",
    "ConfigError",
    "Context",
    "Control",
    "DatabaseError",
    "DuplicateKey",
    "EmbeddedError",
    "Job",
    "JobError",
    "LeaseLost",
    "PayloadError",
    "Retry",
    "RotaError",
    "Run",
    "RunFailed",
    "RunInfo",
    "RunNotFound",
    "SchemaError",
    "Snooze",
    "UnknownJob",
    "UnknownOption",
    "WaitTimeout",
    "WrongState",
]
