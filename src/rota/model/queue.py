"""Queues: their fields, and a queue as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rota.model.fields import Field

WhenFullChoice = Literal["refuse", "drop_lowest"]
QueueOrder = Literal["name", "longest", "oldest"]
# Runs of Rota's own jobs.
SYSTEM_QUEUE = "rota.system"

QueueName = Annotated[str, Field("Queue name.", "mail", longest=100)]
MaxWaiting = Annotated[
    int | None,
    Field(
        "Maximum number of waiting runs, ready or not.",
        10_000,
        "At most",
        least=0,
        most=10**9,
        none_means="no limit",
        metavar="N|none",
    ),
]
WhenFull = Annotated[
    WhenFullChoice,
    Field(
        "Policy when the queue is full: refuse new runs, or drop the waiting runs with the lowest "
        "priority.",
        "refuse",
        "When the queue is full",
        metavar="ACTION",
        choices={
            "refuse": "new runs are refused",
            "drop_lowest": "the runs with the lowest priority are dropped",
        },
    ),
]
Description = Annotated[
    str | None,
    Field(
        "What the queue is for, and whom to ask.",
        "Mails; ask team Growth",
        longest=500,
        none_means="no description",
    ),
]
OnlyPaused = Annotated[bool | None, Field("Only paused queues, or only those that are not.", True)]
Order = Annotated[
    QueueOrder, Field("Sort order: by name, largest backlog first, or longest wait first.", "name")
]

_Blocked = Annotated[int, Field("Runs waiting for other runs.", 0)]
_Scheduled = Annotated[int, Field("Runs waiting for their start time.", 12)]
_Queued = Annotated[int, Field("Runs waiting for a worker.", 340)]
_Held = Annotated[int, Field("Queued runs that are held back.", 0)]
_Running = Annotated[int, Field("Runs claimed by a worker.", 16)]
_Oldest = Annotated[float | None, Field("Age of the oldest run that a worker may take.", 4.2)]


class QueueSettings(TypedDict, total=False):
    """Settings of a queue; omitted ones do not change."""

    max_waiting: MaxWaiting
    when_full: WhenFull
    description: Description


class QueueFilters(TypedDict, total=False):
    paused: OnlyPaused


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue with its backlog, workers and pause.

    `held` runs are part of `queued`. `oldest_seconds` is the age of the oldest run that a worker
    may take. `paused_until` is when it resumes automatically. The counts are `counted_seconds` old:
    0, unless very many runs are unfinished. `max_waiting` is the maximum number of waiting runs,
    ready or not; `is_edited` is true if an operator has overridden the code.
    """

    name: QueueName
    blocked: _Blocked
    scheduled: _Scheduled
    queued: _Queued
    held: _Held
    running: _Running
    oldest_seconds: _Oldest
    counted_seconds: Annotated[
        float, Field("Age of the counts: 0, unless very many runs are unfinished.", 0.0)
    ]
    workers: Annotated[int, Field("Live workers that claim from it.", 2)]
    is_used: Annotated[bool, Field("Whether a job or an unfinished run names it.", True)]
    is_paused: Annotated[bool, Field("Whether the queue is paused.", False)]
    paused_at: Annotated[datetime | None, Field("Since when it is paused.")]
    paused_by: Annotated[str | None, Field("Who paused it.")]
    pause_reason: Annotated[str | None, Field("Why it is paused.")]
    paused_until: Annotated[datetime | None, Field("When it resumes automatically.")] = None
    version: Annotated[int, Field("Incremented with each change.", 1)] = 1
    max_waiting: MaxWaiting = None
    when_full: WhenFull = "refuse"
    full_since: Annotated[
        datetime | None, Field("Since when the queue is full; null: it has room, or no cap.")
    ] = None
    is_edited: Annotated[bool, Field("Whether an operator has overridden the code.", False)] = False
    description: Description = None

    @property
    def cap(self) -> str:
        """How many runs may wait and what happens then, in words; empty without a cap."""
        if self.max_waiting is None:
            return ""
        runs = "waiting run" if self.max_waiting == 1 else "waiting runs"
        then = {"refuse": "more are refused"}.get(
            self.when_full, "those with the lowest priority are dropped"
        )
        return f"at most {self.max_waiting:,} {runs}, {then}"


@dataclass(frozen=True, slots=True)
class JobDepth:
    """The waiting and running runs of one job in one queue."""

    job: Annotated[str, Field("The job.", "send_welcome")]
    blocked: _Blocked
    scheduled: _Scheduled
    queued: _Queued
    held: _Held
    running: _Running
    oldest_seconds: _Oldest


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """A queue and its runs by job, largest backlog first."""

    queue: Annotated[QueueInfo, Field("The queue.")]
    jobs: Annotated[list[JobDepth], Field("Runs by job, largest backlog first.")]
