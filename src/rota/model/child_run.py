"""A run that was enqueued by another run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run that another run has enqueued."""

    id: int
    job: str
    queue: str
    state: str
    created_at: datetime
    finished_at: datetime | None
