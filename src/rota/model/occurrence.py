"""The record of an occurrence, a row of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.states import Decision, ManualKind


@dataclass(frozen=True, slots=True)
class OccurrenceInfo:
    """A nominal time, or a span of them, and the decision made for it: a worker started on it at
    `claimed_at` and stored it at `decided_at`. `backfill_count` of its times were run later by
    backfills; `backfill_states` counts them by the state of their last run.

    In a history with manual runs, also what people ran beside the times: `decision` is `triggered`
    or `backfilled`, `nominal_at` is when they asked, and `details` has the `actor`."""

    schedule: str
    nominal_at: datetime
    through_at: datetime
    count: int
    decision: Decision | ManualKind
    reason: str | None
    claimed_at: datetime
    decided_at: datetime
    decided_by: int | None
    enqueued_at: datetime | None
    run_id: int | None
    backfill_run_id: int | None
    state: str | None
    success: bool | None
    duration_ms: float | None
    lateness_ms: float | None
    error: str | None
    is_moved: bool
    details: dict[str, Any] | None
    backfill_state: str | None
    backfill_count: int = 0
    backfill_states: dict[str, int] | None = None
