"""The records of edits and manual runs of a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A column of `rota.schedules` with its value before and after."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ScheduleEdit:
    """A change to a schedule. `id` is its audit entry; `can_revert` says whether `revert` can undo
    it."""

    id: int
    at: datetime
    actor: str
    action: str
    reason: str | None
    changes: list[FieldChange]
    can_revert: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """A field of a declared schedule that an operator has changed: its value, and what the code
    says."""

    field: str
    stored: Any
    code: Any
    changed_by: str | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ManualRun:
    """A run that somebody started in addition to the schedule's times, or a backfill of many.

    `state` is the state of the run, None once it is deleted. A backfill has `from_at`, `until_at`
    and the number of its `runs`.
    """

    at: datetime
    actor: str
    kind: str
    reason: str | None
    run_id: int | None = None
    state: str | None = None
    from_at: datetime | None = None
    until_at: datetime | None = None
    runs: int = field(default=1)
