"""The record of an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from rota.model.fields import Field
from rota.model.states import AttemptState


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """One row of the view `rota.attempts`."""

    run_id: Annotated[int, Field("Run of this attempt.", 42)]
    attempt: Annotated[int, Field("Attempt number; numbers within a run always increase.", 3)]
    state: Annotated[AttemptState, Field("State of the attempt.", "failed")]
    worker: Annotated[int, Field("Worker that ran it.", 3)]
    started_at: Annotated[datetime, Field("Start time.")]
    finished_at: Annotated[datetime | None, Field("End time.", "2026-03-08T09:00:31Z")]
    duration_ms: Annotated[float | None, Field("Duration.", 214.5)]
    message: Annotated[str | None, Field("Last progress message.")]
    details: Annotated[Any, Field("Details returned by a SQL job.")]
    error_type: Annotated[str | None, Field("Error type.", "SMTPServerDisconnected")]
    error: Annotated[str | None, Field("The error.", "connection lost")]
    traceback: Annotated[str | None, Field("Traceback.")]
    is_redelivery: Annotated[
        bool, Field("Whether an earlier attempt was lost with its worker.", False)
    ]
    is_spent: Annotated[
        bool | None, Field("Whether it counts against `max_attempts`; null while it runs.", True)
    ]
