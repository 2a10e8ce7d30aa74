"""The fields of a schedule that people set, declared once: the library, the API, the command line,
the dashboard and the reference read them here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from rota.model.durations import Duration
from rota.model.fields import Field
from rota.model.instants import LONGEST_SECONDS
from rota.model.schedule import CatchUp, Overlap

Init = Literal["once", "release", "start"]
Gap = Literal["run_after", "skip"]
Fold = Literal["first", "second", "both"]
EveryFrom = Literal["start", "end"]
OnClosed = Literal["skip", "next_day"]
YEAR = 31_536_000
_MOST = 2**31 - 1
_JOBS: dict[str, Any] = {"none_means": "the job's"}
_LOCAL = "a clock change"

ScheduleName = Annotated[str, Field("Schedule name.", "digest")]
ScheduleTenant = Annotated[str, Field("Tenant. Empty: no tenant.", "")]
JobName = Annotated[str, Field("Job to run.", "send_digest", "Job")]
Cron = Annotated[
    str | None,
    Field(
        "Cron expression: five fields, or @hourly, @daily, …", "0 8 * * 1-5", longest=1000,
        metavar="EXPRESSION",
    ),
]  # fmt: skip
INTERVAL = Field(
    "Interval between runs.",
    None,
    "Interval",
    least=1,
    most=LONGEST_SECONDS,
    metavar="DURATION",
    short="every",
)
Interval = Annotated[Duration | None, INTERVAL]
RunAt = Annotated[
    datetime | None, Field("Run once, at this time.", None, "Once, at", metavar="TIME", short="at")
]
InitField = Annotated[Init | None, Field("Run when the application starts.", None, "At startup")]
Timezone = Annotated[
    str,
    Field(
        "IANA time zone of the schedule, e.g. Europe/Paris. Default: UTC.", "America/New_York",
        "Zone", longest=100, metavar="ZONE",
    ),
]  # fmt: skip
GapField = Annotated[
    Gap,
    Field(f"Policy for local times skipped by {_LOCAL}.", "run_after", "Skipped local time"),
]
FoldField = Annotated[
    Fold, Field(f"Policy for local times repeated by {_LOCAL}.", "first", "Repeated local time")
]
HasSeconds = Annotated[
    bool,
    Field(
        "Whether the cron expression has six fields, seconds first.", False,
        "Cron with seconds", short="with_seconds",
    ),
]  # fmt: skip
EveryFromField = Annotated[
    EveryFrom,
    Field(
        "Whether the interval is measured from the start or end of a run.",
        "start",
        "Interval counts from",
    ),
]
StartAt = Annotated[
    datetime | None,
    Field("Earliest run time; an interval is counted from it.", None, "Not before", metavar="TIME"),
]
EndAt = Annotated[datetime | None, Field("Latest run time.", None, "Not after", metavar="TIME")]
MaxRuns = Annotated[
    int | None,
    Field(
        "Number of runs after which the schedule is finished.", None, "Maximum runs", least=1,
        most=_MOST, none_means="no limit",
    ),
]  # fmt: skip
JITTER = Field(
    "Maximum random delay of each run.",
    0.0,
    "Jitter",
    least=0,
    most=LONGEST_SECONDS,
    metavar="DURATION",
    short="jitter",
)
Jitter = Annotated[Duration, JITTER]
BurstAllowed = Annotated[
    bool, Field("Start on time even if many schedules are due at once.", False, "Burst allowed")
]
CalendarField = Annotated[
    str | None,
    Field("Calendar of days and windows without runs.", None, longest=100, metavar="NAME"),
]
OnClosedField = Annotated[
    OnClosed, Field("Policy for times the calendar excludes.", "skip", "On a closed day")
]
CatchUpField = Annotated[CatchUp, Field("Policy for missed times.", "latest", "Catch-up")]
CATCH_UP_SECONDS = Field(
    "How far back to catch up.",
    None,
    "Catch-up, maximum age",
    least=0,
    most=LONGEST_SECONDS,
    none_means="no limit",
    metavar="DURATION",
    short="catch_up_window",
)
CatchUpSeconds = Annotated[Duration | None, CATCH_UP_SECONDS]
CatchUpLimit = Annotated[
    int,
    Field(
        "Maximum number of missed times to catch up.", 100, "Catch-up, maximum times", least=1,
        most=_MOST,
    ),
]  # fmt: skip
GRACE = Field(
    "Lateness that still counts as on time.",
    60.0,
    "Grace period",
    least=0,
    most=LONGEST_SECONDS,
    metavar="DURATION",
    short="grace",
)
Grace = Annotated[Duration, GRACE]
OverlapField = Annotated[
    Overlap,
    Field("Policy while the previous run is unfinished.", "skip", "Overlap"),
]
MaxConcurrentRuns = Annotated[
    int,
    Field(
        "Number of unfinished runs at which the overlap policy applies.", 1, "Concurrent runs",
        least=1, most=_MOST,
    ),
]  # fmt: skip
PauseAfterFailures = Annotated[
    int | None,
    Field(
        "Pause after this many consecutive failures.", None, "Pause after failures", least=1,
        most=_MOST, none_means="never",
    ),
]  # fmt: skip
Requires = Annotated[
    list[dict[str, Any]],
    Field(
        "Jobs and schedules that must have succeeded before.", [], "Requires",
        metavar="NAME[:DURATION]",
    ),
]  # fmt: skip
IsShadow = Annotated[
    bool,
    Field("Dry run: record decisions, but enqueue nothing.", False, "Shadow", short="shadow"),
]
DeleteWhenFinished = Annotated[
    bool, Field("Delete the schedule when it is finished.", False, "Delete when finished")
]
PAYLOAD = Field("Payload of its runs.", {"user_id": 7}, "Payload", none_means="the job's default")
Payload = Annotated[Mapping[str, Any] | None, PAYLOAD]
QueueField = Annotated[
    str | None,
    Field("Queue of its runs.", None, "Queue", longest=100, metavar="NAME", **_JOBS),
]
Priority = Annotated[
    int | None,
    Field(
        "Priority of its runs; lower runs first.", None, "Priority", least=0, most=9,
        metavar="0..9", **_JOBS,
    ),
]  # fmt: skip
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
    short="timeout",
    **_JOBS,
)
Timeout = Annotated[Duration | None, TIMEOUT]
RunTags = Annotated[list[str] | None, Field("Tags of its runs.", None, "Tags of its runs", **_JOBS)]
RUN_METADATA = Field("Metadata of its runs.", None, "Metadata of its runs", **_JOBS)
RunMetadata = Annotated[Mapping[str, Any] | None, RUN_METADATA]
Description = Annotated[str, Field("What it is for.", "", "Description", longest=10_000)]
Tags = Annotated[list[str], Field("Tags.", [], "Tags")]
METADATA = Field("Custom metadata.", {}, "Metadata")
Metadata = Annotated[Mapping[str, Any], METADATA]
IsEnabled = Annotated[
    bool, Field("Whether the schedule is enabled.", True, "Enabled", short="enabled")
]
