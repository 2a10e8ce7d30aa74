"""A stored log line as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class LogLine:
    """One row of `rota.logs`."""

    at: datetime
    run_id: int
    attempt: int
    seq: int
    worker: int
    level: str
    message: str
    fields: dict[str, Any] | None
