"""The configuration: defaults < rota.toml < ROTA_* variables < arguments."""

from __future__ import annotations

from rota.config.catalogue import Setting, describe
from rota.config.load import Config, Source, find_file
from rota.config.sections.logs import LogSettings
from rota.config.sections.retention import RetentionSettings
from rota.config.sections.runs import RunSettings
from rota.config.sections.scheduler import SchedulerSettings
from rota.config.sections.worker import WorkerSettings

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
