"""The record of an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.states import AttemptState


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """One row of the view `rota.attempts`."""

    run_id: int
    attempt: int
    state: AttemptState
    worker: int
    started_at: datetime
    finished_at: datetime | None
    duration_ms: float | None
    message: str | None
    details: Any
    error_type: str | None
    error: str | None
    traceback: str | None
    is_redelivery: bool
    is_spent: bool | None
