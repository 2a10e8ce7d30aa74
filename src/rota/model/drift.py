"""Differences between code and database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

# new: only the code has it. follows: the next sync writes the code's value. kept: an operator
# changed it, and the change is kept. gone: only the database has it. revived: it was deleted from
# the code and is back. deleted: an operator deleted the schedule. taken: another schedule has the
# name. left: its `app.schedule` was removed from the code; it stays until it is deleted, and
# `stored` is what it does meanwhile: its state, or shadow, job_disabled or job_deleted. renamed:
# the next sync or worker renames it; `stored` is its present name.
Change = Literal[
    "new", "follows", "kept", "gone", "revived", "deleted", "taken", "left", "renamed"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Synced:
    """What storing the declarations of the code has written: the names of jobs, the names of jobs
    that were marked because the code no longer declares them, and how many schedules of
    `app.schedule` and queues."""

    written: list[str]
    deleted: list[str]
    schedules: int
    queues: int


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between code and database; `field` is None for the whole job, schedule or
    queue. `job` is empty for a queue."""

    kind: Literal["job", "schedule", "queue"]
    name: str
    job: str
    field: str | None
    change: Change
    code: Any
    stored: Any
    changed_by: str | None
    changed_at: datetime | None
