"""Differences between code and database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from rota.model.fields import Field

# new: only the code has it. follows: the next sync writes the code's value. kept: an operator
# changed it, and the change is kept. gone: only the database has it. revived: it was deleted from
# the code and is back. deleted: an operator deleted the schedule. taken: another schedule has the
# name. left: its `app.schedule` was removed from the code; it stays until it is deleted, and
# `stored` is what it does meanwhile: its state, or shadow, job_disabled or job_deleted. renamed:
# the next sync or worker renames it; `stored` is its present name.
Change = Literal["new", "follows", "kept", "gone", "revived", "deleted", "taken", "left", "renamed"]


@dataclass(frozen=True, slots=True)
class Synced:
    """What storing the declarations of the code has written: the names of jobs, the names of jobs
    that were marked because the code no longer declares them, and how many schedules of
    `app.schedule` and queues."""

    written: Annotated[list[str], Field("Names of the jobs that were written.", ["send_welcome"])]
    deleted: Annotated[
        list[str],
        Field("Names of the jobs that were marked because the code no longer declares them.", []),
    ]
    schedules: Annotated[int, Field("Number of schedules of `app.schedule` that were written.", 1)]
    queues: Annotated[int, Field("Number of queues that were written.", 0)]


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between code and database; `field` is None for the whole job, schedule or
    queue. `job` is empty for a queue."""

    kind: Annotated[
        Literal["job", "schedule", "queue"], Field("What differs: a job, schedule or queue.", "job")
    ]
    name: Annotated[str, Field("Name.", "send_welcome")]
    job: Annotated[str, Field("Job it belongs to.", "send_welcome")]
    field: Annotated[str | None, Field("Field; null: the whole job or schedule.", "priority")]
    change: Annotated[Change, Field("What a sync would do.", "kept")]
    code: Annotated[Any, Field("Value in the code.", 5)]
    stored: Annotated[
        Any,
        Field(
            "Value in the database; for `left`, what the schedule does: its state, `shadow`, "
            "`job_disabled` or `job_deleted`.",
            1,
        ),
    ]
    changed_by: Annotated[str | None, Field("Who changed it.", "cli:ada")]
    changed_at: Annotated[datetime | None, Field("When it was changed.", "2026-03-08T09:00:00Z")]
