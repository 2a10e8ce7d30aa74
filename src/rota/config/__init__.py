"""The configuration: defaults < rota.toml < ROTA_* variables < arguments."""

from __future__ import annotations

from rota.config.catalogue import Setting, describe
from rota.config.load import Config, Source, find_file
from rota.config.settings import (
    LogSettings,
    RetentionSettings,
    RunSettings,
    SchedulerSettings,
    WorkerSettings,
)

__all__ = [
    "Config",
    "LogSettings",
    "RetentionSettings",
    "RunSettings",
    "SchedulerSettings",
    "Setting",
    "Source",
    "WorkerSettings",
    "describe",
    "find_file",
]
