"""Every setting: its name, type, range, default and meaning, written once.

The catalogue, the loader, the template and the reference page are all read from these classes.
They are plain frozen data; values are checked at the edge, by `Config.load`. (Not pydantic models:
a model has no room for a field named `schema`.)
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rota.config import secrets
from rota.model.backoff import Backoff, Kind

Level = Literal["debug", "info", "warning", "error", "critical"]

# Long enough for any wait, short enough for a Postgres interval and a person's typing error.
YEAR = 31_536_000
KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Shown:
    """How a setting reads where its type and value do not say it well."""

    default: str | None = None
    range: str | None = None
    is_secret: bool = False
    hint: str | None = None
    items: str = "names"


def default_concurrency() -> int:
    return min(1024, 4 * (os.cpu_count() or 1))


def _not_reserved(name: str) -> str:
    if name.startswith("pg_"):
        raise ValueError("Postgres keeps names that start with pg_ for itself")
    return name


def _network(text: str) -> str:
    ipaddress.ip_network(text, strict=False)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """How the database is reached where `database_url` leads to a pooler."""

    direct_url: Annotated[
        str | None,
        Field(
            min_length=1,
            description="The same database past the pooler, for what needs a session of its own:"
            " listening, SQL jobs, migrations. Not set: `database_url`.",
            examples=["postgresql://user@host/database"],
        ),
        AfterValidator(secrets.database_url),
        Shown(
            is_secret=True,
            range="postgresql://user:password@host:port/database, or key=value pairs",
            hint="in a URL, @ : / % and spaces of a password are percent-encoded: @ is %40",
        ),
    ] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker claims runs, keeps its lease and stops."""

    concurrency: Annotated[
        int,
        Field(
            ge=1, le=1024, description="Slots: the attempts that one worker process runs at once."
        ),
        Shown(default="4 × cores"),
    ] = field(default_factory=default_concurrency)
    processes: Annotated[
        int, Field(ge=1, le=64, description="Worker processes that one `rota worker` starts.")
    ] = 1
    queues: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(
            description="Queues to claim from. Empty: all of them. Rota's own, `rota.system`, is"
            " always one.",
            examples=[("mail",)],
        ),
        Shown(default="all"),
    ] = ()
    isolation: Annotated[
        Literal["process", "inline"],
        Field(
            description="Where a run is isolated that was lost with its worker: in a process of "
            "its own where its handler can run in one, or always in the worker's own process."
        ),
    ] = "process"
    child_max_runs: Annotated[
        int | None,
        Field(
            ge=1,
            le=1_000_000_000,
            description="Attempts after which a child process of the process executor is replaced."
            " Not set: it stays.",
            examples=[1000],
        ),
    ] = None
    child_max_memory_mb: Annotated[
        int | None,
        Field(
            ge=16,
            le=16_777_216,
            description="A child process of the process executor that has more resident memory than"
            " this after an attempt is replaced (on Linux). Not set: it stays.",
            examples=[512],
        ),
    ] = None
    poll_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=60,
            description="Longest wait between claims when no wake-up comes; six times as long, at"
            " most six seconds, while it hears calls and has nothing to do.",
        ),
    ] = 1.0
    lease_seconds: Annotated[
        float,
        Field(
            ge=10,
            le=3600,
            description="A worker silent for this long is lost and its runs are rescued. "
            "It renews every third of it. No bound on the length of a run.",
        ),
    ] = 30.0
    patience_seconds: Annotated[
        float,
        Field(
            ge=5,
            le=3600,
            description="A worker that cannot claim or write ends for this long, although the"
            " database is there, gives up its identity; if that does not help, its process ends.",
        ),
    ] = 60.0
    sleep_after_seconds: Annotated[
        float | None,
        Field(
            ge=1,
            le=86_400,
            description="A worker without work for this long falls asleep: it closes its"
            " connections until something is due or somebody wakes it. Not set: never.",
            examples=[300.0],
        ),
    ] = None
    sleep_at_most_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=86_400,
            description="Longest sleep: what others enqueue meanwhile waits for so long at most.",
        ),
    ] = 3600.0
    shutdown_seconds: Annotated[
        float,
        Field(ge=0, le=3600, description="Time that running attempts get to end at a shutdown."),
    ] = 30.0
    claim_size: Annotated[
        int, Field(ge=1, le=5000, description="Most runs taken in one claim.")
    ] = 500
    unknown_job_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=YEAR,
            description="How long a run waits for a worker that knows its job, before it fails.",
        ),
    ] = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a run gets unless its job says otherwise, and the sizes that are stored."""

    max_attempts: Annotated[
        int, Field(ge=1, le=100, description="Attempts of a run. 1: no retry.")
    ] = 3
    timeout_seconds: Annotated[
        float | None,
        Field(
            ge=0.1,
            le=YEAR,
            description="An attempt that runs longer is stopped. Not set: no limit.",
            examples=[60.0],
        ),
    ] = None
    payload_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Largest payload, as JSON.")
    ] = MIB
    result_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Largest result that is stored, as JSON.")
    ] = MIB
    error_bytes: Annotated[
        int,
        Field(
            ge=256, le=MIB, description="Longest error message, and traceback, stored; cut beyond."
        ),
    ] = 16 * KIB
    backoff: Annotated[
        Kind, Field(description="How the wait before a retry grows with each attempt.")
    ] = "exponential"
    backoff_base_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="The wait after the first attempt.")
    ] = 5.0
    backoff_factor: Annotated[
        float, Field(ge=1, le=1000, description="Growth of each exponential wait over the last.")
    ] = 2.0
    backoff_cap_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Longest wait, before jitter.")
    ] = 300.0
    backoff_jitter_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Most that is added to a wait at random.")
    ] = 1.0

    def default_backoff(self) -> Backoff:
        """The backoff of jobs that declare none."""
        return Backoff(
            kind=self.backoff,
            base=self.backoff_base_seconds,
            factor=self.backoff_factor,
            cap=self.backoff_cap_seconds,
            jitter=self.backoff_jitter_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Whether and how often a worker looks at the schedules."""

    enabled: Annotated[bool, Field(description="Whether workers of this process tick.")] = True
    tick_seconds: Annotated[
        float,
        Field(ge=1, le=3600, description="Longest wait between ticks when no wake-up comes."),
    ] = 15.0
    burst_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=3600,
            description="More than ten schedules due at one instant start over this; 0: at once.",
        ),
    ] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What is stored of the lines that handlers write."""

    stored_level: Annotated[Level, Field(description="Lines below this level are not stored.")] = (
        "info"
    )
    capture: Annotated[
        bool,
        Field(
            description="Whether what logging and structlog emit in handlers is stored too, "
            "beside `ctx.log`; a job may say otherwise."
        ),
    ] = False
    buffer_lines: Annotated[
        int,
        Field(
            ge=100,
            le=1_000_000,
            description="Lines kept in memory while the database is away; then lines are dropped.",
        ),
    ] = 10_000
    buffer_bytes: Annotated[
        int,
        Field(
            ge=MIB,
            le=1024 * MIB,
            description="Memory for them; then lines are dropped, too.",
        ),
    ] = 64 * MIB
    flush_seconds: Annotated[
        float, Field(ge=0.1, le=60, description="Longest time a line waits before it is stored.")
    ] = 5.0
    line_bytes: Annotated[
        int, Field(ge=256, le=MIB, description="Longest line stored; a longer one is cut, marked.")
    ] = 16 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long what has ended is kept, unless its job says otherwise."""

    run_days: Annotated[
        int, Field(ge=1, le=36_500, description="Ended runs, with their attempts.")
    ] = 30
    failed_run_days: Annotated[
        int | None,
        Field(
            ge=1, le=36_500, description="Runs that failed. Not set: as the others.", examples=[90]
        ),
    ] = None
    log_days: Annotated[int, Field(ge=1, le=36_500, description="Log lines.")] = 7
    occurrence_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Occurrences: the decisions of schedules; and finished schedules, "
            "backfills and their times, and bulk actions that have ended.",
        ),
    ] = 90
    event_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Events, with what each has started, and what webhooks refused.",
        ),
    ] = 30
    rollup_days: Annotated[int, Field(ge=1, le=36_500, description="Counts for charts.")] = 400
    audit_days: Annotated[
        int | None,
        Field(ge=1, le=36_500, description="The audit. Not set: for ever.", examples=[3650]),
    ] = None
    short_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Bound of the class of runs that are kept shortest: what its jobs keep no "
            "longer than this lies in partitions of its own.",
        ),
    ] = 7
    long_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Bound of the class that is kept longest: no job may ask for more.",
        ),
    ] = 365


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the API is served, to whom, and how much of it at once."""

    host: Annotated[
        str, Field(min_length=1, description="The address that `rota server` listens on.")
    ] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="The port; 0: any that is free.")] = (
        7682
    )
    token: Annotated[
        str | None,
        Field(
            min_length=16,
            max_length=1000,
            description="The admin token. Nothing but `/health` and `/ready` answers without it.",
            examples=["at-least-16-characters-long"],
        ),
        AfterValidator(secrets.token),
        Shown(is_secret=True, range="at least 16 visible characters"),
    ] = field(default=None, repr=False)
    public_metrics: Annotated[
        bool, Field(description="Whether `/metrics` answers without a token.")
    ] = False
    metrics_tenants: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Tenants with series of their own in `/metrics`; the others are one."
            " 0: no series of tenants.",
        ),
    ] = 20
    failures_per_second: Annotated[
        float,
        Field(
            ge=1,
            le=1_000_000,
            description="Most requests a second from one address that are refused for want of a"
            " token, on average; what has the token is not counted.",
        ),
    ] = 10.0
    trusted_proxies: Annotated[
        tuple[Annotated[str, AfterValidator(_network)], ...],
        Field(
            description="Addresses or networks of proxies whose `X-Forwarded-For` and"
            " `X-Forwarded-Proto` are believed. Empty: nobody's.",
            examples=[("10.0.0.0/8",)],
        ),
        Shown(items="addresses"),
    ] = ()
    max_connections: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Most connections at once. A new one then takes the place of who has"
            " waited longest without a request.",
        ),
    ] = 1000
    header_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=600,
            description="A connection whose request has not come whole in this time, but for its"
            " body, is closed.",
        ),
    ] = 10.0
    body_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Largest body of a request.")
    ] = 2 * MIB
    statement_seconds: Annotated[
        float,
        Field(ge=0.1, le=600, description="Longest time that a statement of a request may take."),
    ] = 10.0


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
            description="Where the database is. Not set: the embedded Postgres.",
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
            description="The database schema that Rota lives in.",
        ),
        AfterValidator(_not_reserved),
        Shown(range="up to 40 of a-z, 0-9, _; no digit first, no pg_"),
    ] = "rota"
    embedded: Annotated[
        bool,
        Field(description="Whether the embedded Postgres is used when there is no `database_url`."),
    ] = True
    data_dir: Annotated[
        Path | None,
        Field(
            description="Where the embedded Postgres keeps its data. "
            "Not set: `.rota/postgres` in the project.",
            examples=[Path(".rota/postgres")],
        ),
    ] = None
    log_level: Annotated[
        Level, Field(description="Lines below this level are not written to the console.")
    ] = "info"
    release: Annotated[
        str | None,
        Field(
            min_length=1,
            description="The release of your application, shown with its workers.",
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
