"""A schedule in the forecast of the coming load."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Planned:
    """The timing of a schedule, and the durations of its runs."""

    tenant: str
    name: str
    state: str
    cron: str | None
    interval_seconds: float | None
    run_at: datetime | None
    has_seconds: bool
    timezone: str
    gap: str
    fold: str
    start_at: datetime | None
    end_at: datetime | None
    anchor_at: datetime | None
    jitter_seconds: float
    calendar: str | None
    on_closed: str
    avg_duration_ms: float | None
    max_duration_ms: float | None
    max_duration_ms_7d: float | None

    @property
    def full_name(self) -> str:
        """The name with the tenant: names are unique only within a tenant."""
        return f"{self.tenant}/{self.name}" if self.tenant else self.name
