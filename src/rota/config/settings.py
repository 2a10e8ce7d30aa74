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
    """How to reach the database when `database_url` points to a connection pooler."""

    direct_url: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Direct URL of the same database, bypassing the pooler, for features that "
            "need a session: LISTEN, SQL jobs, migrations. Default: `database_url`.",
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
    """How a worker claims runs, renews its lease and shuts down."""

    concurrency: Annotated[
        int,
        Field(ge=1, le=1024, description="Slots: maximum concurrent attempts per worker process."),
        Shown(default="4 × cores"),
    ] = field(default_factory=default_concurrency)
    processes: Annotated[
        int, Field(ge=1, le=64, description="Number of worker processes that `rota worker` starts.")
    ] = 1
    queues: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(
            description="Queues to claim from. Empty: all. Rota's own queue, `rota.system`, is "
            "always included.",
            examples=[("mail",)],
        ),
        Shown(default="all"),
    ] = ()
    isolation: Annotated[
        Literal["process", "inline"],
        Field(
            description="Where to isolate a run that was lost with its worker: in a separate "
            "process if its handler supports it, or always in the worker's own "
            "process."
        ),
    ] = "process"
    child_max_runs: Annotated[
        int | None,
        Field(
            ge=1,
            le=1_000_000_000,
            description="Number of attempts after which a child process of the process executor "
            "is replaced. Not set: never.",
            examples=[1000],
        ),
    ] = None
    child_max_memory_mb: Annotated[
        int | None,
        Field(
            ge=16,
            le=16_777_216,
            description="Resident memory above which a child process of the process executor is "
            "replaced after an attempt (Linux only). Not set: never.",
            examples=[512],
        ),
    ] = None
    poll_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=60,
            description="Maximum interval between polls when no notification arrives. While a "
            "worker receives notifications and is idle, it is six times as long, but "
            "at most 6 seconds unless set higher.",
        ),
    ] = 1.0
    lease_seconds: Annotated[
        float,
        Field(
            ge=10,
            le=3600,
            description="Time without a heartbeat after which a worker is considered lost and its "
            "runs are rescued. The lease is renewed every third of this time. It does "
            "not limit how long a run may take.",
        ),
    ] = 30.0
    patience_seconds: Annotated[
        float,
        Field(
            ge=5,
            le=3600,
            description="Time after which a worker that cannot claim runs or store results, "
            "although the database is available, gives up its identity. If that does "
            "not help, its process exits.",
        ),
    ] = 60.0
    sleep_after_seconds: Annotated[
        float | None,
        Field(
            ge=1,
            le=86_400,
            description="Idle time after which a worker goes to sleep: it closes its connections "
            "until something is due or it is woken. Not set: never.",
            examples=[300.0],
        ),
    ] = None
    sleep_at_most_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=86_400,
            description="Maximum sleep time, and so the longest that a run enqueued meanwhile may "
            "wait.",
        ),
    ] = 3600.0
    shutdown_seconds: Annotated[
        float,
        Field(ge=0, le=3600, description="Time that running attempts have to finish on shutdown."),
    ] = 30.0
    claim_size: Annotated[
        int, Field(ge=1, le=5000, description="Maximum number of runs per claim.")
    ] = 500
    unknown_job_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=YEAR,
            description="How long a run waits for a worker that knows its job before it fails.",
        ),
    ] = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Defaults for runs, which jobs may override, and size limits."""

    max_attempts: Annotated[
        int, Field(ge=1, le=100, description="Maximum attempts per run. 1: no retries.")
    ] = 3
    timeout_seconds: Annotated[
        float | None,
        Field(
            ge=0.1,
            le=YEAR,
            description="Timeout of each attempt. Not set: no limit.",
            examples=[60.0],
        ),
    ] = None
    payload_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Maximum payload size, as JSON.")
    ] = MIB
    result_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Maximum size of a stored result, as JSON.")
    ] = MIB
    error_bytes: Annotated[
        int,
        Field(
            ge=256,
            le=MIB,
            description="Maximum size of a stored error message, and of a traceback; longer ones "
            "are truncated.",
        ),
    ] = 16 * KIB
    backoff: Annotated[
        Kind, Field(description="How the delay before a retry grows with each attempt.")
    ] = "exponential"
    backoff_base_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Delay after the first attempt.")
    ] = 5.0
    backoff_factor: Annotated[
        float,
        Field(
            ge=1,
            le=1000,
            description="Multiplier of the exponential delay from one attempt to the next.",
        ),
    ] = 2.0
    backoff_cap_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Maximum delay, before jitter.")
    ] = 300.0
    backoff_jitter_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Maximum random jitter added to a delay.")
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
    """Whether and how often a worker checks schedules."""

    enabled: Annotated[
        bool, Field(description="Whether workers of this process run the scheduler.")
    ] = True
    tick_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=3600,
            description="Maximum interval between scheduler ticks when no notification arrives.",
        ),
    ] = 15.0
    burst_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=3600,
            description="Period over which starts are spread when more than ten schedules are due "
            "at once. 0: no spreading.",
        ),
    ] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Which log lines of handlers are stored."""

    stored_level: Annotated[
        Level, Field(description="Minimum level of log lines that are stored.")
    ] = "info"
    capture: Annotated[
        bool,
        Field(
            description="Whether to store log lines that handlers write through logging and "
            "structlog, in addition to `ctx.log`. Jobs may override it."
        ),
    ] = False
    buffer_lines: Annotated[
        int,
        Field(
            ge=100,
            le=1_000_000,
            description="Maximum number of log lines buffered while the database is unavailable; "
            "further lines are dropped.",
        ),
    ] = 10_000
    buffer_bytes: Annotated[
        int,
        Field(
            ge=MIB,
            le=1024 * MIB,
            description="Maximum memory for buffered log lines; further lines are dropped.",
        ),
    ] = 64 * MIB
    flush_seconds: Annotated[
        float, Field(ge=0.1, le=60, description="Maximum time before a log line is stored.")
    ] = 5.0
    line_bytes: Annotated[
        int,
        Field(
            ge=256,
            le=MIB,
            description="Maximum size of a stored log line; longer ones are truncated and marked.",
        ),
    ] = 16 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long history is kept. Jobs may override it."""

    run_days: Annotated[
        int, Field(ge=1, le=36_500, description="Days to keep finished runs and their attempts.")
    ] = 30
    failed_run_days: Annotated[
        int | None,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep failed runs. Default: as other runs.",
            examples=[90],
        ),
    ] = None
    log_days: Annotated[int, Field(ge=1, le=36_500, description="Days to keep log lines.")] = 7
    occurrence_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep occurrences (the ledger of schedules), finished schedules, "
            "backfills and their times, and finished bulk actions.",
        ),
    ] = 90
    event_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep events with what each started, and refused webhook requests.",
        ),
    ] = 30
    rollup_days: Annotated[
        int, Field(ge=1, le=36_500, description="Days to keep roll-ups, the counts behind charts.")
    ] = 400
    audit_days: Annotated[
        int | None,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep the audit trail. Not set: forever.",
            examples=[3650],
        ),
    ] = None
    short_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Upper bound of the short retention class: runs kept no longer than this "
            "are stored in separate partitions.",
        ),
    ] = 7
    long_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Upper bound of the long retention class: no job may keep runs longer "
            "than this.",
        ),
    ] = 365


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Address, access and limits of the API server."""

    host: Annotated[
        str, Field(min_length=1, description="Address that `rota server` listens on.")
    ] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, le=65_535, description="Port to listen on. 0: any free port.")
    ] = 7682
    token: Annotated[
        str | None,
        Field(
            min_length=16,
            max_length=1000,
            description="Admin token. Only `/health` and `/ready` respond without it.",
            examples=["at-least-16-characters-long"],
        ),
        AfterValidator(secrets.token),
        Shown(is_secret=True, range="at least 16 visible characters"),
    ] = field(default=None, repr=False)
    public_metrics: Annotated[
        bool, Field(description="Whether `/metrics` is available without a token.")
    ] = False
    metrics_tenants: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Number of tenants with their own series in `/metrics`; all others share "
            "one. 0: no series by tenant.",
        ),
    ] = 20
    failures_per_second: Annotated[
        float,
        Field(
            ge=1,
            le=1_000_000,
            description="Maximum average rate of unauthenticated requests per second from one "
            "address. Requests with the token are not counted.",
        ),
    ] = 10.0
    trusted_proxies: Annotated[
        tuple[Annotated[str, AfterValidator(_network)], ...],
        Field(
            description="Addresses or networks of proxies whose `X-Forwarded-For` and "
            "`X-Forwarded-Proto` headers are trusted. Empty: none.",
            examples=[("10.0.0.0/8",)],
        ),
        Shown(items="addresses"),
    ] = ()
    max_connections: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Maximum number of connections. Above it, a new connection replaces the "
            "one that has been idle longest.",
        ),
    ] = 1000
    header_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=600,
            description="Time limit for receiving a complete request, except its body. Slower "
            "connections are closed.",
        ),
    ] = 10.0
    body_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Maximum size of a request body.")
    ] = 2 * MIB
    statement_seconds: Annotated[
        float,
        Field(ge=0.1, le=600, description="Time limit of each SQL statement of a request."),
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
        Shown(range="up to 40 of a-z, 0-9, _; no digit first, no pg_"),
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
            description="Release of your application, shown with its workers.",
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
