"""Limits: their fields, and a limit as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from rota.model.durations import Duration
from rota.model.fields import Field
from rota.model.formatting import duration

LimitKind = Literal["concurrency", "rate", "sequence"]
OnFull = Literal["wait", "skip", "replace", "cancel_running"]
NextAfter = Literal["success", "end"]
LimitOrder = Literal["name", "fullest", "longest"]
MOST = 1_000_000

LimitName = Annotated[str, Field("Limit name.", "per-customer")]
LimitTenant = Annotated[str, Field("Tenant of the limit; empty: the limit for all tenants.", "")]
KindField = Annotated[
    LimitKind,
    Field(
        "Kind of limit. Default for a new limit: concurrency.",
        "concurrency",
        metavar="KIND",
        choices={
            "concurrency": "concurrent runs",
            "rate": "runs per period",
            "sequence": "one after another",
        },
    ),
]
Cap = Annotated[
    int, Field("Maximum number of runs. 0: nothing starts.", 5, "At most", least=0, most=MOST)
]
_PERIOD = "Rate limits: period."
Period = Annotated[
    Duration | None, Field(_PERIOD, 60, "Period", least=0.01, most=31_536_000, metavar="1m")
]
Burst = Annotated[int | None, Field("Rate limits: maximum burst.", None, least=1, most=MOST)]
Cost = Annotated[
    str | None,
    Field("Rate limits: payload field that holds the cost of a run.", longest=100, metavar="FIELD"),
]
NextAfterField = Annotated[
    NextAfter | None,
    Field(
        "Sequences: start the next run after the success or the end of the previous one.",
        label="Next run after",
        metavar="END",
        choices={"success": "the previous run succeeded", "end": "the previous run ended"},
    ),
]
OnFullField = Annotated[
    OnFull,
    Field(
        "Policy for a run when the limit is full.",
        "wait",
        "When the limit is full",
        metavar="ACTION",
        choices={
            "wait": "the run waits",
            "skip": "the run is skipped",
            "replace": "the run replaces the waiting one",
            "cancel_running": "the oldest running run is cancelled",
        },
    ),
]
_ANY: dict[str, Any] = {"none": "any", "none_means": "no restriction"}
OfQueue = Annotated[
    str | None, Field("Only runs of this queue.", longest=100, metavar="QUEUE|any", **_ANY)
]
OfJobs = Annotated[
    list[str] | None,
    Field("Only runs of these jobs.", ["sync_orders"], metavar="JOB,JOB|any", **_ANY),
]
OfSchedule = Annotated[
    str | None, Field("Only runs of this schedule.", metavar="SCHEDULE|any", **_ANY)
]
KeyTemplate = Annotated[
    str | None,
    Field(
        "Count separately for each value of this template.",
        "customer:{customer_id}",
        metavar="TEMPLATE",
        none_means="one counter",
    ),
]
CounterValue = Annotated[
    str | None,
    Field("Unblock only the counter with this value.", "order:7", longest=300, none_means="all"),
]
Order = Annotated[
    LimitOrder, Field("Sort order: by name, fullest first, or largest backlog first.", "name")
]


class LimitChanges(TypedDict, total=False):
    """Fields of a limit; omitted ones do not change. None removes a value: no key, any queue, any
    job, any schedule."""

    kind: KindField
    cap: Cap
    period_seconds: Period
    burst: Burst
    cost: Cost
    next_after: NextAfterField
    on_full: OnFullField
    queue: OfQueue
    jobs: OfJobs
    schedule: OfSchedule
    key: KeyTemplate


class LimitFilters(TypedDict, total=False):
    tenant: Annotated[str | None, Field("Filter by tenant.", "acme")]
    kind: Annotated[LimitKind | None, Field("Filter by kind.", "rate")]
    job: Annotated[str | None, Field("Filter by job.", "sync_orders")]
    queue: Annotated[str | None, Field("Filter by queue.", "mail", longest=100)]


@dataclass(frozen=True, slots=True)
class LimitInfo:
    """A limit with its rule, scope and current use.

    Without a key there is one counter; with a key, one for each value. `in_use` and `waiting` are
    totals of all counters; `keys` is the number of counters, `full` how many of them are full.
    `waiting` is counted up to ten thousand.
    """

    name: LimitName
    tenant: Annotated[str, Field("Tenant it applies to; empty: all tenants together.", "")]
    kind: Annotated[LimitKind, Field("Concurrency, rate or sequence.", "concurrency")]
    cap: Annotated[int, Field("Maximum number of runs.", 5)]
    period_seconds: Annotated[float | None, Field("Rate limits: period in seconds.")]
    burst: Burst
    cost: Cost
    next_after: Annotated[
        NextAfter | None,
        Field("Sequences: whether the next run requires the previous one to succeed."),
    ]
    on_full: OnFullField
    queue: OfQueue
    jobs: OfJobs
    schedule: OfSchedule
    key: KeyTemplate
    in_use: Annotated[int, Field("Runs that hold a slot, across all counters.", 12)]
    waiting: Annotated[int, Field("Runs waiting for a slot, counted up to 10,000.", 340)]
    keys: Annotated[int, Field("Number of counters.", 3)]
    full: Annotated[int, Field("Number of full counters.", 2)]
    admitted: Annotated[
        int, Field("Number of runs admitted since its counters were created.", 48210)
    ]
    is_declared: Annotated[bool, Field("Whether the code declares it.", True)]
    is_edited: Annotated[bool, Field("Whether an operator has overridden the code.", False)]
    updated_at: Annotated[datetime, Field("When it was changed last.")]
    updated_by: Annotated[str, Field("Who changed it last.", "code:shop.jobs")]

    @property
    def scope(self) -> str:
        """What it applies to, in words."""
        parts = [
            f"jobs {', '.join(self.jobs)}" if self.jobs and len(self.jobs) > 1 else "",
            f"job {self.jobs[0]}" if self.jobs and len(self.jobs) == 1 else "",
            f"queue {self.queue}" if self.queue else "",
            f"schedule {self.schedule}" if self.schedule else "",
            f"tenant {self.tenant}" if self.tenant else "",
        ]
        return ", ".join(part for part in parts if part) or "all runs"

    @property
    def rule(self) -> str:
        """How many runs it allows, in words."""
        each = f" for each {self.key}" if self.key else ""
        if self.kind == "sequence":
            after = "success" if self.next_after == "success" else "end"
            return f"one at a time, after the {after} of the previous run{each}"
        if self.kind == "concurrency":
            return f"{self.cap:,} at once{each}"
        burst = f", burst {self.burst:,}" if self.burst else ""
        return f"{self.cap:,} in {duration(self.period_seconds)}{burst}{each}"


@dataclass(frozen=True, slots=True)
class LimitKey:
    """One counter of a limit. `wait_until`: when a rate has room again. `blocked_by`: the failed
    run whose success a sequence waits for."""

    value: Annotated[str, Field("The value of the key; empty without one.", "customer:7")]
    in_use: Annotated[int, Field("Runs that hold a slot.", 5)]
    waiting: Annotated[int, Field("Runs waiting for a slot, counted up to 1,000.", 338)]
    wait_until: Annotated[
        datetime | None, Field("Rate limits: when an exhausted limit has room again.")
    ]
    blocked_by: Annotated[int | None, Field("Sequences: failed run whose success it waits for.")]


@dataclass(frozen=True, slots=True)
class LimitRun:
    """A run that holds a slot of a limit, or waits for one."""

    id: Annotated[int, Field("The run.", 4711)]
    job: Annotated[str, Field("Its job.", "sync_orders")]
    queue: Annotated[str, Field("Its queue.", "default")]
    state: Annotated[str, Field("Its state.", "running")]
    value: Annotated[str, Field("Value of the key.", "customer:7")]
    since: Annotated[datetime, Field("Since when it has been running or waiting.")]
    worker: Annotated[int | None, Field("Worker that has it.", 3)]


@dataclass(frozen=True, slots=True)
class LimitDetails:
    """A limit, its counters, the runs that hold a slot and the runs that wait for one; at most 100
    of each."""

    limit: Annotated[LimitInfo, Field("The limit.")]
    keys: Annotated[
        list[LimitKey], Field("Its counters, those with waiting runs first; up to 100.")
    ]
    holders: Annotated[list[LimitRun], Field("Runs that hold a slot, oldest first; up to 100.")]
    waiters: Annotated[list[LimitRun], Field("Runs waiting for a slot, in order; up to 100.")]
