"""A job as the database knows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One row of `rota.jobs`; `workers` counts the live ones that know the job."""

    name: str
    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    backoff: dict[str, Any] | None
    executor: str
    payload_schema: dict[str, Any]
    tags: list[str]
    metadata: dict[str, Any]
    source: str
    workers: int
    created_at: datetime
    updated_at: datetime
