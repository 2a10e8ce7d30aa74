"""Jobs: their fields, and the record of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from rota.model.fields import Field, Plain
from rota.model.instants import LONGEST_SECONDS
from rota.model.queue import JobDepth
from rota.model.states import JobKind, Strategy

_AT = "2026-03-08T09:00:00Z"
JobOrder = Literal["name", "newest", "changed"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
TransactionMode = Literal["whole", "none"]
# A float4 column can hold it; shorter timeouts would stop an attempt before it began.
SHORTEST, YEAR = 0.001, 31_536_000

JobName = Annotated[str, Field("Job name.", "send_welcome", shortest=1)]
NewName = Annotated[str, Field("The new name.", "send_greeting", shortest=1)]
Description = Annotated[str, Field("What it does.", "", longest=10_000)]
OfQueue = Annotated[
    str,
    Field(
        "Queue of its runs. Waiting runs stay in their queue.",
        "mail",
        shortest=1,
        longest=100,
        metavar="QUEUE",
    ),
]
Priority = Annotated[
    int, Field("Priority of its runs, 0 to 9; lower runs first.", 5, least=0, most=9)
]
MaxAttempts = Annotated[
    int, Field("Maximum attempts of its runs.", 3, "Attempts", least=1, most=100)
]
TIMEOUT = Field(
    "Timeout of each attempt.",
    30.0,
    "Timeout",
    least=SHORTEST,
    most=YEAR,
    none_means="no time limit",
)
BACKOFF = Field(
    "Retry backoff: fixed, linear or exponential, or an object with kind, base_seconds, factor, "
    "cap_seconds and jitter_seconds.",
    metavar="KIND|JSON",
    none_means="as configured",
    is_long=True,
)
Tags = Annotated[list[str], Field("Tags.", ["mail"], shortest=1, longest=100)]
METADATA = Field("Custom metadata.", {}, is_long=True)
DEFAULT_PAYLOAD = Field(
    "Payload of runs that are enqueued without one.", none_means="no payload", is_long=True
)
Events = Annotated[
    list[str], Field("Events that start it: names and patterns.", ["user.created"], shortest=1)
]
EVENT_FILTERS = Field("Payload filters by event.", {"user.created": {"plan": "pro"}}, is_long=True)
EVENT_DELIVERY = Field(
    "Debounce or throttle events: debounce_seconds (with longest_seconds) or throttle_seconds, and "
    "a key template such as order:{order_id}.",
    {"throttle_seconds": 60.0, "key": "user:{user_id}"},
    none_means="every event starts a run",
    is_long=True,
)
MinLogLevel = Annotated[
    LogLevel | None,
    Field(
        "Minimum level of stored log lines.",
        label="Log level",
        none_means="as configured",
        metavar="LEVEL",
    ),
]
RETENTION = Field(
    "Retention of its runs and logs: days, count, failed_days, failed_count, log_days, log_count, "
    "failed_log_days. A shorter one also applies to runs that have ended, at the next pass; a "
    "longer one to runs that end from now on.",
    metavar="days=30,…",
    none_means="as configured",
)
DELAY = Field(
    "Delay of runs that are enqueued without one.",
    None,
    "Delay",
    least=0,
    most=LONGEST_SECONDS,
    none_means="no delay",
)
EXPIRES_IN = Field(
    "Cancel runs that have not started this long after they may.",
    3600.0,
    "Expires in",
    least=SHORTEST,
    most=LONGEST_SECONDS,
    none_means="never",
)
Key = Annotated[
    str | None,
    Field(
        "Template of the idempotency key of its runs, filled from the payload.",
        "welcome:{user_id}",
        shortest=1,
        metavar="TEMPLATE",
        none_means="no key",
    ),
]
TENANT = Field(
    "Tenant of runs that are enqueued without one.",
    None,
    none_means="no tenant",
    shortest=1,
    metavar="TENANT",
)
FUNCTION = Field(
    "SQL jobs: function or procedure to call, with its schema.",
    "public.close_orders",
    "Function",
    shortest=1,
    longest=1000,
    metavar="FUNCTION",
)
RunAs = Annotated[
    str | None,
    Field(
        "SQL jobs: role that it runs as, which allow_run_as has permitted.",
        label="Runs as",
        shortest=1,
        longest=63,
        none_means="the role of the workers",
        metavar="ROLE",
    ),
]
MODE = Field(
    "SQL jobs: `none` for a procedure that commits by itself.",
    None,
    "Transaction",
    choices={
        "whole": "one transaction with the end of the run",
        "none": "the procedure commits by itself",
    },
    metavar="whole|none",
)
Cascade = Annotated[bool, Field("Also delete its schedules.", label="Cascade")]
CancelOpen = Annotated[bool, Field("Cancel its unfinished runs.", label="Cancel unfinished runs")]
Order = Annotated[
    JobOrder, Field("Sort order: by name, newest first, or most recently changed first.", "name")
]


class JobFilters(TypedDict, total=False):
    """Filters of `app.jobs.list`, for type checkers."""

    text: Annotated[str | None, Field("Text in the name or description.", "mail")]
    tag: Annotated[str | None, Field("Filter by tag.", "mail", longest=100)]
    queue: Annotated[str | None, Field("Filter by queue.", "mail", longest=100)]
    enabled: Annotated[bool | None, Field("Only enabled jobs, or only disabled ones.", True)]
    metadata: Annotated[
        Mapping[str, Plain] | None, Field("Metadata key and value, e.g. team:billing.")
    ]
    system: Annotated[bool, Field("Include Rota's own jobs.", False)]


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

    name: JobName
    description: Description
    queue: OfQueue
    priority: Priority
    max_attempts: MaxAttempts
    timeout_seconds: Annotated[float | None, TIMEOUT]
    backoff: Annotated[dict[str, Any] | None, BACKOFF]
    executor: Annotated[str, Field("Executor of its handler.", "async")]
    payload_schema: Annotated[
        dict[str, Any],
        Field(
            "JSON Schema of its payload.",
            {"type": "object", "properties": {"user_id": {"type": "integer"}}},
        ),
    ]
    tags: Tags
    metadata: Annotated[dict[str, Any], METADATA]
    source: Annotated[str, Field("Location of its code.", "shop/jobs.py:12")]
    workers: Annotated[int, Field("Live workers that know it.", 2)]
    created_at: Annotated[datetime, Field("When it was first registered.")]
    updated_at: Annotated[datetime, Field("When it was last changed.")]
    default_payload: Annotated[dict[str, Any] | None, DEFAULT_PAYLOAD] = None
    is_enabled: Annotated[bool, Field("Whether the job is enabled.", True)] = True
    application: Annotated[str, Field("The application that declares it.", "shop.jobs")] = ""
    code: Annotated[dict[str, Any] | None, Field("Latest definition in the code.")] = None
    edited: Annotated[
        dict[str, Any], Field("Fields changed by an operator, with who and when.", {})
    ] = field(default_factory=dict)
    deleted_from_code_at: Annotated[
        datetime | None, Field("When it was removed from the code.")
    ] = None
    version: Annotated[int, Field("Incremented with each change; also the ETag.", 1)] = 1
    events: Events = field(default_factory=list)
    event_filters: Annotated[dict[str, Any], EVENT_FILTERS] = field(default_factory=dict)
    event_delivery: Annotated[dict[str, Any] | None, EVENT_DELIVERY] = None
    log_level: Annotated[
        str | None, Field("Minimum level of stored log lines; null: as configured.")
    ] = None
    strategies: Annotated[
        list[Strategy], Field("Ways the job is started.", ["on_demand", "event"])
    ] = field(default_factory=list)
    retention: Annotated[dict[str, int] | None, RETENTION] = None
    kind: Annotated[JobKind, Field("python or sql.", "python")] = "python"
    function_name: Annotated[str | None, Field("SQL jobs: function or procedure to call.")] = None
    run_as: RunAs = None
    transaction_mode: Annotated[str | None, MODE] = None
    is_system: Annotated[bool, Field("Whether it is one of Rota's own.", False)] = False
    delay_seconds: Annotated[float | None, DELAY] = None
    expires_in_seconds: Annotated[float | None, EXPIRES_IN] = None
    key: Key = None
    tenant: Annotated[str | None, TENANT] = None
    definition_hash: Annotated[
        str | None, Field("Hash of its definition in the code.", "5f2d7c8be6a14f0c9d3e1a2b4c5d6e7f")
    ] = None
    last_run_at: Annotated[datetime | None, Field("When a run of it last ended.", _AT)] = None
    next_run_at: Annotated[datetime | None, Field("When the first of its schedules is due.")] = None


@dataclass(frozen=True, slots=True)
class JobUse:
    """A job, its unfinished runs and its schedules: what disabling or deleting it affects."""

    job: JobInfo
    depth: JobDepth | None
    schedules: list[str]

    @property
    def queued(self) -> int:
        return self.depth.queued if self.depth else 0

    @property
    def running(self) -> int:
        return self.depth.running if self.depth else 0

    @property
    def unfinished(self) -> int:
        other = self.depth.blocked + self.depth.scheduled if self.depth else 0
        return self.queued + self.running + other


@dataclass(frozen=True, slots=True)
class JobFunction:
    """A function or procedure of the database that a job can call, with its schema. `jobs` are
    those that call it; `description` is its comment."""

    function_name: Annotated[
        str,
        Field(
            "Name with its schema; with argument types if others have that name.",
            "public.close_orders",
        ),
    ]
    arguments: Annotated[str, Field("Its arguments.", "payload jsonb")]
    kind: Annotated[
        Literal["function", "procedure"], Field("A function, or a procedure.", "function")
    ]
    transaction_mode: Annotated[str, Field("`transaction_mode` of a job that calls it.", "whole")]
    owner: Annotated[str, Field("Its owner.", "shop")]
    description: Annotated[str, Field("Its comment.", "")]
    jobs: Annotated[list[str], Field("Jobs that call it.", [])]


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """The function that a SQL job calls, and the role it runs as. `definition` is None if the
    function no longer exists."""

    name: str
    run_as: str | None
    definition: str | None
