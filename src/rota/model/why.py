"""Explanations of why something does not run, or what happened to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from rota.model.fields import Field

Kind = Literal["run", "schedule", "job", "queue"]


Subject = Annotated[
    str, Field("Run ID, or a name.", "mail", shortest=1, metavar="RUN|SCHEDULE|JOB|QUEUE")
]
KindOf = Annotated[
    Kind | None,
    Field(
        "Kind of object. Default: a number is a run; a name is a schedule, else a job, else a "
        "queue.",
        "job",
        metavar="KIND",
    ),
]
TenantOf = Annotated[str, Field("Tenant of the schedule.", "", metavar="NAME")]


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, in plain words.

    `code` is for programs, `sentence` for people. `since` and `until` say from when to when it
    applies, or is expected to; if `is_past`, `since` is when it happened. `by_whom` caused it.
    `next_step` is what happens next, or what to do; `command` would change it. `facts` are the
    names and numbers in the sentence.
    """

    code: Annotated[str, Field("Machine-readable code of the reason.", "queue_paused")]
    sentence: Annotated[
        str,
        Field(
            "The reason in plain words.", "Queue mail is paused by grace: “the provider is down”."
        ),
    ]
    since: Annotated[datetime | None, Field("Since when it applies.", "2026-03-08T08:12:00Z")]
    until: Annotated[datetime | None, Field("When it ends or is expected to end; null if unknown.")]
    by_whom: Annotated[str | None, Field("Who caused it.", "grace")]
    next_step: Annotated[
        str,
        Field(
            "What happens next, or what to do.",
            "No run of the queue starts until somebody resumes it; running attempts continue.",
        ),
    ]
    command: Annotated[
        str | None, Field("Command that would change it.", "rota queues resume mail")
    ]
    facts: Annotated[
        dict[str, Any],
        Field(
            "Objects named in the sentence: `run`, `job`, `queue`, `schedule`, `worker`, `other` …",
            {"queue": "mail"},
        ),
    ]
    is_past: Annotated[
        bool, Field("Whether it is a past event at `since` rather than a continuing state.", False)
    ]


@dataclass(frozen=True, slots=True)
class Why:
    """The reasons for one run, schedule, job or queue, most important first.

    `also` lists the other kinds of object with the same name. `at` is the database's time.
    """

    kind: Annotated[Kind, Field("Kind of object: run, schedule, job or queue.", "queue")]
    name: Annotated[str, Field("Name or ID.", "mail")]
    tenant: Annotated[str, Field("Tenant of the schedule.", "")]
    at: Annotated[datetime, Field("Current time of the database's clock.")]
    also: Annotated[
        list[str], Field("Other kinds of object with the same name; select one with `kind`.", [])
    ]
    reasons: Annotated[list[Reason], Field("Reasons, most important first.")]
