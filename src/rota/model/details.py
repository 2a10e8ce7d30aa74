"""A run with its attempts and log lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rota.model.attempt import AttemptInfo
from rota.model.log import LogLine
from rota.model.run import RunInfo

Isolation = Literal["waiting", "process", "inline"]


@dataclass(frozen=True, slots=True)
class Handled:
    """Who marked a run that failed permanently, or its error group, as handled."""

    handled_at: datetime
    handled_by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run, its attempts (first one first), and its last log lines in order. For a run that was
    lost with its worker, `isolation` says that it waits to be isolated, or where it is isolated:
    in a separate `process`, or `inline`, in its worker's process."""

    run: RunInfo
    attempts: list[AttemptInfo]
    logs: list[LogLine]
    isolation: Isolation | None = None
    handled: Handled | None = None
