"""What people did to a schedule, as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A column of `rota.schedules`, what it held before, and what since then."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ScheduleEdit:
    """`id` is the entry of the audit. `can_revert` says whether `revert` can take it back."""

    id: int
    at: datetime
    actor: str
    action: str
    reason: str | None
    changes: list[FieldChange]
    can_revert: bool = False


@dataclass(frozen=True, slots=True)
class ManualRun:
    """A run that somebody asked for beside the times, or a backfill of many.

    `state` is that of the run, None once it is deleted. A backfill has `from_at`, `until_at` and
    the number of its `runs`.
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
