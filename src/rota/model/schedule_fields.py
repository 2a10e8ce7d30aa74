"""The fields of a schedule that people set, declared once: the library, the API, the command line,
the dashboard and the reference read them here.

`ScheduleSettings` has all of them by the names of their columns. Python callers may use the short
names in `SHORT_NAMES` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypedDict, get_type_hints

from rota.model.durations import Duration, is_duration, read_duration, write_duration
from rota.model.fields import Argument, Check, Field, Moment, settings_of
from rota.model.instants import LONGEST_SECONDS
from rota.model.schedule import CatchUp, Overlap, Requirement

Init = Literal["once", "release", "start"]
Gap = Literal["run_after", "skip"]
Fold = Literal["first", "second", "both"]
EveryFrom = Literal["start", "end"]
OnClosed = Literal["skip", "next_day"]
YEAR = 31_536_000
_MOST = 2**31 - 1
_JOBS: dict[str, Any] = {"none_means": "the job's"}
_SPAN: dict[str, Any] = {"most": LONGEST_SECONDS, "metavar": "DURATION"}
# The options that only a cron expression has.
OF_CRON = ("gap", "fold", "has_seconds")
KINDS = ("cron", "interval_seconds", "run_at", "init")


class Required(TypedDict, total=False):
    """A job or schedule that must have succeeded before."""

    name: Annotated[str, Field("A job or a schedule.", "import", shortest=1)]
    within_seconds: Annotated[
        Duration | None,
        Field(
            "Maximum age of the success.",
            3600.0,
            least=0.001,
            most=LONGEST_SECONDS,
            none_means="the last run must have succeeded",
        ),
    ]


@cache
def _required() -> dict[str, Argument]:
    return {one.name: one for one in settings_of(Required)}


def _read_requires(name: str, value: Any) -> list[dict[str, Any]]:
    """Each is a name, a name and a duration, a mapping, or `rota.after(…)`."""
    return [_read_required(one) for one in value]


def _read_required(one: Any) -> dict[str, Any]:
    match one:
        case Mapping():
            given = dict(one)
        case Requirement():
            given = {"name": one.name, "within_seconds": one.within_seconds}
        case (name, within):
            given = {"name": name, "within_seconds": within}
        case _:
            given = {"name": one}
    known = _required()
    if odd := [name for name in given if name not in known]:
        raise ValueError(f"requires: unknown field {odd[0]}")
    found = {name: it.read(given.get(name)) for name, it in known.items() if name in given}
    if not found.get("name", "").strip():
        raise ValueError("requires: each needs the name of a job or a schedule")
    return {name: value for name, value in found.items() if value is not None}


def _parse_requires(text: str) -> list[Any]:
    """`import, load:1h`"""
    return [_parse_required(part.strip()) for part in text.split(",") if part.strip()]


def _parse_required(text: str) -> Any:
    name, colon, within = text.rpartition(":")
    return (name.strip(), within.strip()) if colon and is_duration(within.strip()) else text


def _write_requires(value: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(_write_required(one) for one in value)


def _write_required(one: Mapping[str, Any]) -> str:
    name, within = str(one.get("name", "")), read_duration(one.get("within_seconds"))
    return name if within is None else f"{name}:{write_duration(within)}"


_NAME = Field("Schedule name.", "digest", shortest=1)
ScheduleName = Annotated[str, _NAME]
PreviewName = Annotated[str | None, _NAME]
ScheduleTenant = Annotated[str, Field("Tenant. Empty: no tenant.", "")]
JobName = Annotated[str, Field("Job to run.", "send_digest", "Job", shortest=1)]
Template = Annotated[
    str | None,
    Field("Template whose cron expression it gets.", None, shortest=1, metavar="TEMPLATE"),
]
FromAt = Annotated[
    Moment, Field("Start of the period: a time, or how long ago.", "7d", "From", metavar="7d|TIME")
]
UntilAt = Annotated[
    Moment | None,
    Field("End of the period, not in the future.", "1d", "To", none_means="now", metavar="1d|TIME"),
]
Count = Annotated[
    int | None,
    Field("Number of times. Default: 10, or all until the end.", 5, least=1, most=10_000),
]
After = Annotated[datetime | None, Field("Start after this time.", None, none_means="now")]
Until = Annotated[datetime | None, Field("End of the period, inclusive.", None)]
ViewerZone = Annotated[
    str | None,
    Field(
        "Also show the times in this time zone.",
        "Europe/Paris",
        shortest=1,
        longest=100,
        metavar="ZONE",
    ),
]
DryRun = Annotated[bool, Field("List the times without enqueueing runs.", True)]
Rate = Annotated[
    float | None,
    Field(
        "Maximum runs per minute.",
        10.0,
        "Runs per minute",
        least=0.001,
        most=1_000_000,
        none_means="all at once",
    ),
]
Again = Annotated[bool, Field("Include times that already ran.", True)]
EntryId = Annotated[
    int, Field("Audit entry ID of the edit.", 12, least=1, most=2**63 - 1, metavar="ENTRY_ID")
]
_CRON = Field(
    "Cron expression: five fields, or a macro such as @hourly or @daily.",
    "0 8 * * 1-5",
    "Cron",
    shortest=1,
    longest=1000,
    metavar="EXPRESSION",
)
_ONE_LINE = Check(lambda _, text: " ".join(text.split()))
CronExpression = Annotated[str, _CRON, _ONE_LINE]
Description = Annotated[
    str, Field("What it is for.", "", "Description", longest=10_000, default="")
]

Cron = Annotated[str | None, _CRON, _ONE_LINE]
INTERVAL = Field(
    "Interval between runs, e.g. 90s, 15min, 1h30m or 1d.", None, "Interval", least=1, **_SPAN
)
RunAt = Annotated[datetime | None, Field("Run once, at this time.", None, "Once, at")]
InitField = Annotated[
    Init | None,
    Field(
        "Run when the application starts.",
        None,
        "At startup",
        choices={
            "once": "once ever, at the first start",
            "release": "once for each release",
            "start": "whenever the first worker starts",
        },
    ),
]
Timezone = Annotated[
    str,
    Field(
        "IANA time zone of the schedule, e.g. Europe/Paris.",
        "America/New_York",
        "Zone",
        shortest=1,
        longest=100,
        metavar="ZONE",
        default="UTC",
    ),
]
GapField = Annotated[
    Gap,
    Field(
        "Policy for local times skipped by a clock change.",
        "run_after",
        "Skipped local time",
        choices={"run_after": "run right after the gap", "skip": "skip it"},
        default="run_after",
    ),
]
FoldField = Annotated[
    Fold,
    Field(
        "Policy for local times repeated by a clock change.",
        "first",
        "Repeated local time",
        choices={
            "first": "run the first time",
            "second": "run the second time",
            "both": "run twice",
        },
        default="first",
    ),
]
HasSeconds = Annotated[
    bool,
    Field(
        "Whether the cron expression has six fields, seconds first.",
        False,
        "Cron with seconds",
        default=False,
    ),
]
EveryFromField = Annotated[
    EveryFrom,
    Field(
        "Whether the interval is measured from the start or the end of a run.",
        "start",
        "Interval counts from",
        default="start",
        choices={
            "start": "the interval does not depend on how long runs take",
            "end": "the interval starts when the run ends",
        },
    ),
]
StartAt = Annotated[
    datetime | None,
    Field("Earliest run time; an interval is counted from it.", None, "Not before"),
]
EndAt = Annotated[datetime | None, Field("Latest run time.", None, "Not after")]
MaxRuns = Annotated[
    int | None,
    Field(
        "Number of runs after which the schedule is finished.",
        None,
        "Maximum runs",
        least=1,
        most=_MOST,
        none_means="no limit",
    ),
]
JITTER = Field("Maximum random delay of each run.", 0.0, "Jitter", least=0, default=0.0, **_SPAN)
BurstAllowed = Annotated[
    bool,
    Field(
        "Start on time even if many schedules are due at once.",
        False,
        "Burst allowed",
        default=False,
    ),
]
CalendarField = Annotated[
    str | None,
    Field(
        "Calendar of days and windows without runs.",
        None,
        "Calendar",
        shortest=1,
        none_means="every day is open",
        metavar="CALENDAR",
    ),
]
OnClosedField = Annotated[
    OnClosed,
    Field(
        "Policy for times the calendar excludes.",
        "skip",
        "On a closed day",
        choices={"skip": "skip it", "next_day": "run on the next open day"},
        default="skip",
    ),
]
CatchUpField = Annotated[
    CatchUp,
    Field(
        "Policy for missed times.",
        "latest",
        "Catch-up",
        choices={
            "none": "skip it and record it as missed",
            "latest": "run once, for the latest missed time",
            "all": "run every missed time, one after the other",
        },
        default="latest",
    ),
]
CATCH_UP_WINDOW = Field(
    "How far back to catch up.",
    None,
    "Catch-up, maximum age",
    least=0,
    none_means="no limit",
    **_SPAN,
)
CatchUpLimit = Annotated[
    int,
    Field(
        "Maximum number of missed times to catch up.",
        100,
        "Catch-up, maximum times",
        least=1,
        most=_MOST,
        default=100,
    ),
]
GRACE = Field(
    "Lateness that still counts as on time.", 60.0, "Grace period", least=0, default=60.0, **_SPAN
)
OverlapField = Annotated[
    Overlap,
    Field(
        "Policy while the previous run is unfinished.",
        "skip",
        "Overlap",
        choices={
            "skip": "skip this time and record it",
            "queue_one": "wait for it; further times are skipped",
            "queue_all": "wait for it and for all earlier ones",
            "cancel_running": "cancel it and start",
            "allow": "start anyway",
        },
        default="skip",
    ),
]
MaxConcurrentRuns = Annotated[
    int,
    Field(
        "Number of unfinished runs at which the overlap policy applies.",
        1,
        "Concurrent runs",
        least=1,
        most=_MOST,
        default=1,
    ),
]
PauseAfterFailures = Annotated[
    int | None,
    Field(
        "Pause after this many consecutive failures.",
        None,
        "Pause after failures",
        least=1,
        most=_MOST,
        none_means="never",
    ),
]
REQUIRES = Field(
    "Jobs and schedules that must have succeeded before, each in its last run or within a "
    "duration.",
    [],
    "Requires",
    metavar="NAME[:DURATION],…",
    default=[],
)
IsShadow = Annotated[
    bool, Field("Dry run: record decisions, but enqueue nothing.", False, "Shadow", default=False)
]
DeleteWhenFinished = Annotated[
    bool,
    Field("Delete the schedule when it is finished.", False, "Delete when finished", default=False),
]
PAYLOAD = Field(
    "Payload of its runs.", {"user_id": 7}, "Payload", none_means="the job's default", is_long=True
)
FillPriority = Annotated[
    int | None,
    Field(
        "Priority of these runs; lower runs first.",
        9,
        "Priority",
        least=0,
        most=9,
        none_means="the schedule's",
    ),
]
QueueField = Annotated[
    str | None,
    Field("Queue of its runs.", None, "Queue", shortest=1, longest=100, metavar="QUEUE", **_JOBS),
]
Priority = Annotated[
    int | None,
    Field("Priority of its runs; lower runs first.", None, "Priority", least=0, most=9, **_JOBS),
]
MaxAttempts = Annotated[
    int | None,
    Field("Maximum attempts of its runs.", None, "Attempts", least=1, most=100, **_JOBS),
]
TIMEOUT = Field(
    "Timeout of each attempt of its runs.",
    None,
    "Timeout",
    least=0.001,
    most=YEAR,
    metavar="DURATION",
    **_JOBS,
)
RUN_TAGS = Field("Tags of its runs.", None, "Tags of its runs", shortest=1, longest=100, **_JOBS)
RUN_METADATA = Field("Metadata of its runs.", None, "Metadata of its runs", is_long=True, **_JOBS)
TAGS = Field("Tags.", [], "Tags", shortest=1, longest=100, default=[])
METADATA = Field("Custom metadata.", {}, "Metadata", is_long=True, default={})
IS_ENABLED = Field("Whether the schedule is enabled.", True, "Enabled")


class _Clock(TypedDict, total=False):
    cron: Cron
    interval_seconds: Annotated[Duration | None, INTERVAL]
    run_at: RunAt
    timezone: Timezone
    gap: GapField
    fold: FoldField
    has_seconds: HasSeconds


class _Start(TypedDict, total=False):
    init: InitField
    every_from: EveryFromField


class _Bounds(TypedDict, total=False):
    start_at: StartAt
    end_at: EndAt
    calendar: CalendarField
    on_closed: OnClosedField


class _Others(TypedDict, total=False):
    max_runs: MaxRuns
    jitter_seconds: Annotated[Duration, JITTER]
    burst_allowed: BurstAllowed
    catch_up: CatchUpField
    catch_up_window_seconds: Annotated[Duration | None, CATCH_UP_WINDOW]
    catch_up_limit: CatchUpLimit
    grace_seconds: Annotated[Duration, GRACE]
    overlap: OverlapField
    max_concurrent_runs: MaxConcurrentRuns
    pause_after_failures: PauseAfterFailures
    requires: Annotated[
        Iterable[str | tuple[str, Duration] | Mapping[str, Any] | Required | Requirement],
        REQUIRES,
        Check(_read_requires, _parse_requires, _write_requires),
    ]
    is_shadow: IsShadow
    delete_when_finished: DeleteWhenFinished
    payload: Annotated[Mapping[str, Any] | None, PAYLOAD]
    queue: QueueField
    priority: Priority
    max_attempts: MaxAttempts
    timeout_seconds: Annotated[Duration | None, TIMEOUT]
    run_tags: Annotated[Iterable[str] | None, RUN_TAGS]
    run_metadata: Annotated[Mapping[str, Any] | None, RUN_METADATA]
    description: Description
    tags: Annotated[Iterable[str], TAGS]
    metadata: Annotated[Mapping[str, Any], METADATA]
    is_enabled: Annotated[bool | None, IS_ENABLED]


class ScheduleSettings(_Clock, _Start, _Bounds, _Others, total=False):
    """Settings of a schedule. Exactly one of `cron`, `interval_seconds`, `run_at` and `init` sets
    its timing. None means the default."""


class Timing(_Clock, _Bounds, total=False):
    """What the times of a schedule follow from."""

    anchor_at: Annotated[
        datetime | None, Field("Reference time of an interval without an earliest run time.")
    ]


class _ShortOfClock(TypedDict, total=False):
    every: Duration | None
    at: datetime | None
    with_seconds: bool


class _ShortOfOthers(TypedDict, total=False):
    jitter: Duration
    catch_up_window: Duration | None
    grace: Duration
    shadow: bool
    timeout: Duration | None
    enabled: bool | None


class ScheduleKeywords(ScheduleSettings, _ShortOfClock, _ShortOfOthers, total=False):
    """Settings of a schedule, also by their short names."""


class TimingKeywords(Timing, _ShortOfClock, total=False):
    """A timing, also by the short names."""


class PolicyKeywords(_Bounds, _Others, _ShortOfOthers, total=False):
    """What `rota.cron`, `every`, `once` and `on_start` take beside the timing. Without a name, the
    schedule gets that of its job."""

    name: str


SHORT_NAMES = {
    "every": "interval_seconds",
    "at": "run_at",
    "with_seconds": "has_seconds",
    "jitter": "jitter_seconds",
    "catch_up_window": "catch_up_window_seconds",
    "grace": "grace_seconds",
    "shadow": "is_shadow",
    "timeout": "timeout_seconds",
    "enabled": "is_enabled",
}


NewJob = Annotated[str | None, Field("New job.", "send_digest", shortest=1, metavar="JOB")]
Reset = Annotated[
    bool | list[str],
    Field(
        "Fields to reset to the values in the code.",
        choices=dict.fromkeys(get_type_hints(ScheduleSettings), ""),
        metavar="FIELD|all",
    ),
]


@cache
def schedule_settings() -> dict[str, Argument]:
    """The declared settings by the names of their columns."""
    return {one.name: one for one in settings_of(ScheduleSettings)}


@cache
def defaults() -> dict[str, Any]:
    """The value of each column that is not set. `is_enabled` is None: a schedule that exists keeps
    its state, and a new one is enabled."""
    return {name: one.field.default for name, one in schedule_settings().items()}
