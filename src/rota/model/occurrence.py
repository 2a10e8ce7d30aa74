"""The record of an occurrence, a row of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from rota.model.fields import Field
from rota.model.states import Decision, ManualKind

_AT = "2026-03-09T12:00:00Z"


@dataclass(frozen=True, slots=True)
class OccurrenceInfo:
    """A nominal time, or a span of them, and the decision made for it: a worker started on it at
    `claimed_at` and stored it at `decided_at`. `backfill_count` of its times were run later by
    backfills; `backfill_states` counts them by the state of their last run.

    In a history with manual runs, also what people ran beside the times: `decision` is `triggered`
    or `backfilled`, `nominal_at` is when they asked, and `details` has the `actor`."""

    schedule: Annotated[str, Field("Schedule.", "digest")]
    nominal_at: Annotated[
        datetime, Field("Scheduled time, or the first of several with the same decision.")
    ]
    through_at: Annotated[datetime, Field("Last of these times.")]
    count: Annotated[int, Field("Number of scheduled times.", 1)]
    decision: Annotated[
        Decision | ManualKind,
        Field("Decision; `triggered` or `backfilled`: what people ran beside its times.", "ran"),
    ]
    reason: Annotated[str | None, Field("Reason.")]
    claimed_at: Annotated[datetime, Field("When a worker began to decide.")]
    decided_at: Annotated[datetime, Field("Time of the decision.")]
    decided_by: Annotated[int | None, Field("The worker that decided.", 3)]
    enqueued_at: Annotated[datetime | None, Field("When its run was enqueued.", _AT)]
    run_id: Annotated[int | None, Field("Its run.", 42)]
    backfill_run_id: Annotated[int | None, Field("Run that a backfill created for it later.")]
    state: Annotated[str | None, Field("The state of its run.", "succeeded")]
    success: Annotated[bool | None, Field("Whether its run succeeded.", True)]
    duration_ms: Annotated[float | None, Field("Duration of its run.", 214.5)]
    lateness_ms: Annotated[float | None, Field("How late its run started.", 12.0)]
    error: Annotated[str | None, Field("Error of its run.")]
    is_moved: Annotated[bool, Field("Whether an operator has set this time.", False)]
    details: Annotated[dict[str, Any] | None, Field("Further details of the decision.")]
    backfill_state: Annotated[
        str | None, Field("State of the backfill's run, until retention deletes it.")
    ]
    backfill_count: Annotated[int, Field("Number of its times that backfills ran later.", 0)] = 0
    backfill_states: Annotated[
        dict[str, int] | None, Field("These times by the state of their last run.")
    ] = None
