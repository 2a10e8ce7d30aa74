"""A run that another one has asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ChildRun:
    id: int
    job: str
    queue: str
    state: str
    created_at: datetime
    finished_at: datetime | None
