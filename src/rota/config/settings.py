"""Every setting: its name, type, range, default and meaning, defined once.

The catalogue, the loader, the template and the reference page are all generated from these classes.
They are plain frozen data; `Config.load` checks the values. (They are not pydantic models, because
a model cannot have a field named `schema`.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from rota.config import secrets
from rota.config.sections.database import DatabaseSettings
from rota.config.sections.logs import LogSettings
from rota.config.sections.retention import RetentionSettings
from rota.config.sections.runs import RunSettings
from rota.config.sections.scheduler import SchedulerSettings
from rota.config.sections.server import ServerSettings
from rota.config.sections.shown import Level, Shown
from rota.config.sections.worker import WorkerSettings


def _not_reserved(name: str) -> str:
    if name.startswith("pg_"):
        raise ValueError("names that start with pg_ are reserved by Postgres")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings: those of the whole installation, then one attribute for each section."""

    app: Annotated[
        str | None,
        Field(
            min_length=1,
            description="The application: `module:attribute`, or the path of a Python file.",
            examples=["myproject.jobs:app"],
        ),
    ] = None
    database_url: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Database URL. Default: the embedded Postgres.",
            examples=["postgresql://user@host/database"],
        ),
        AfterValidator(secrets.database_url),
        Shown(
            is_secret=True,
            range="postgresql://user:password@host:port/database, or key=value pairs",
            hint="in a URL, @ : / % and spaces of a password are percent-encoded: @ is %40",
        ),
    ] = field(default=None, repr=False)
    schema: Annotated[
        str,
        Field(
            pattern=r"^[a-z_][a-z0-9_]{0,39}$",
            description="Database schema that Rota uses.",
        ),
        AfterValidator(_not_reserved),
        Shown(range="up to 40 of a-z, 0-9 and _, not starting with a digit or pg_"),
    ] = "rota"
    embedded: Annotated[
        bool,
        Field(description="Whether to use the embedded Postgres when there is no `database_url`."),
    ] = True
    data_dir: Annotated[
        Path | None,
        Field(
            description="Data directory of the embedded Postgres. Default: `.rota/postgres` in "
            "the project.",
            examples=[Path(".rota/postgres")],
        ),
    ] = None
    log_level: Annotated[
        Level, Field(description="Minimum level of log lines written to the console.")
    ] = "info"
    release: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Release of your application, shown with its workers. During a "
            "deployment, processes of an older release do not overwrite what the newest one "
            "declares.",
            examples=["2026-01-31"],
        ),
    ] = None

    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    runs: RunSettings = field(default_factory=RunSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
