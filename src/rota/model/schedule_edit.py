"""The records of edits and manual runs of a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from rota.model.fields import Field
from rota.model.states import ManualKind

_AT = "2026-03-09T12:00:00Z"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A column of `rota.schedules` with its value before and after."""

    field: Annotated[str, Field("The column.", "cron")]
    before: Annotated[Any, Field("Its value before.", "0 3 * * *")]
    after: Annotated[Any, Field("Its value after.", "30 2 * * *")]


@dataclass(frozen=True, slots=True)
class ScheduleEdit:
    """A change to a schedule. `id` is its audit entry; `can_revert` says whether `revert` can undo
    it."""

    id: Annotated[int, Field("Audit entry ID, for `revert`.", 12)]
    at: Annotated[datetime, Field("Time of the change.")]
    actor: Annotated[str, Field("Who did it.", "api:admin")]
    action: Annotated[str, Field("What was done.", "schedule.updated")]
    reason: Annotated[str | None, Field("Reason.", "the books close later")]
    changes: Annotated[list[FieldChange], Field("Each field with its value before and after.")]
    can_revert: Annotated[bool, Field("Whether it can be reverted.", True)] = False


@dataclass(frozen=True, slots=True)
class Override:
    """A field of a declared schedule that an operator has changed: its value, and what the code
    says."""

    field: Annotated[str, Field("The field.", "cron")]
    stored: Annotated[Any, Field("Its value.", "0 9 * * *")]
    code: Annotated[Any, Field("The value in the code.", "0 8 * * *")]
    changed_by: Annotated[str | None, Field("Who changed it.", "cli:ada")]
    changed_at: Annotated[datetime | None, Field("When it was changed.", _AT)]


@dataclass(frozen=True, slots=True)
class ManualRun:
    """A run that somebody started in addition to the schedule's times, or a backfill of many.

    `state` is the state of the run, None once it is deleted. A backfill has `from_at`, `until_at`
    and the number of its `runs`.
    """

    at: Annotated[datetime, Field("When it was requested.")]
    actor: Annotated[str, Field("Who did it.", "api:admin")]
    kind: Annotated[ManualKind, Field("A single run, or a backfill.", "triggered")]
    reason: Annotated[str | None, Field("Reason.", "asked for")]
    run_id: Annotated[int | None, Field("The single run.", 42)] = None
    state: Annotated[
        str | None, Field("State of the single run; null once it is deleted.", "succeeded")
    ] = None
    from_at: Annotated[datetime | None, Field("Backfills: start of the period.")] = None
    until_at: Annotated[datetime | None, Field("Backfills: end of the period.")] = None
    runs: Annotated[int, Field("Number of runs enqueued.", 1)] = field(default=1)
